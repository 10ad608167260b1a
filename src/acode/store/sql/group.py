"""Many writes in one commit: by a thread, or by the loop itself while that is quicker.

Imported only where it is used: threads cost.
"""

import asyncio
import itertools
import threading
from collections.abc import Iterable
from queue import Empty, SimpleQueue
from typing import Any

from acode.clock import ticks
from acode.errors import DiskFull, StoreBusy, StoreUnavailable, StoreUnusable
from acode.store.sql.claims import claim
from acode.store.sql.writer import Book, Demand, Write

MAX_GROUP = 1000
"""Requests in one commit; bounds the time that other processes wait for the lock."""

MAX_HERE = 128
"""Requests that the loop writes by itself at most."""
SLOW_SECONDS = 0.005
"""A loop that was held up for longer leaves the writing to the thread."""
SLOW_REST_SECONDS = 1.0
"""Until it tries again: so it is held up for a small part of the time, however slow the disk."""


_Request = tuple[Demand, asyncio.Future[Any]]
"""A demand, and whoever waits for it."""


class GroupWriter:
    """Takes whatever is waiting, commits it once, and answers everybody."""

    def __init__(self, book: Book, *, here: bool = True) -> None:
        self._book = book
        self._here = here  # the loop may write, too
        self._waiting: SimpleQueue[_Request | None] = SimpleQueue()
        self._gathered: dict[asyncio.AbstractEventLoop, list[_Request]] = {}
        """What a loop has asked for in its present turn."""
        self._stopped = False
        self._gate = threading.Lock()
        self._writing = threading.Lock()
        """Whoever has it owns the connection."""
        self._here_again = 0.0
        self._thread = threading.Thread(target=self._run, name="acode-writer", daemon=True)
        self._thread.start()

    async def write(self, demand: Demand) -> Any:
        """Queue one write; returns when the commit that holds it is on disk."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        with self._gate:
            if self._stopped:
                raise StoreUnusable("the store is closed")
            gathered = self._gathered.setdefault(loop, [])
            gathered.append((demand, future))
        if len(gathered) == 1:
            # Not at once: the thread would run off with the first of many.
            loop.call_soon(self._hand_over, loop)
        return await future

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._gate:
            group = self._gathered.pop(loop, [])
            here = self._may_write_here(group)
            if not here:
                self._queue(group)
        if here:
            self._write_here(group)

    def _may_write_here(self, group: list[_Request]) -> bool:
        """Whether the loop may write: it takes no time, and nobody else is at it."""
        small = (
            self._here and 0 < len(group) <= MAX_HERE and all(demand.quick for demand, _ in group)
        )
        free = small and self._waiting.empty() and ticks() >= self._here_again
        return free and self._writing.acquire(blocking=False)

    def _write_here(self, group: list[_Request]) -> None:
        began = ticks()
        try:
            outcomes = self._commit(group, patient=False)
        except Exception:
            # The thread waits for locks, and finds out whose fault it was.
            self._queue(group)
            return
        finally:
            self._writing.release()
        if ticks() - began > SLOW_SECONDS:
            self._here_again = ticks() + SLOW_REST_SECONDS
        _resolve([(future, outcome) for (_, future), outcome in zip(group, outcomes, strict=True)])

    def _queue(self, group: Iterable[_Request]) -> None:
        for request in group:
            self._waiting.put(request)

    def stop(self) -> None:
        """Finish what was asked for; safe to call twice."""
        with self._gate:
            self._stopped = True
            self._queue(itertools.chain.from_iterable(self._gathered.values()))
            self._gathered.clear()
        # Nothing may come after the mark of the end: it would never be answered.
        with self._writing:
            self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (group := self._next_group()) is not None:
            with self._writing:
                outcomes = self._outcomes(group)
            _answer(group, outcomes)

    def _next_group(self) -> list[_Request] | None:
        first = self._waiting.get()
        if first is None:
            return None
        group = [first]
        while len(group) < MAX_GROUP:
            try:
                request = self._waiting.get_nowait()
            except Empty:
                break
            if request is None:
                self._waiting.put(None)
                break
            group.append(request)
        return group

    def _outcomes(self, group: list[_Request]) -> list[Any]:
        try:
            return self._commit(group)
        except (DiskFull, StoreBusy, StoreUnavailable) as error:
            # The same for everybody; finding out one by one would take for ever.
            return [error] * len(group)
        except Exception as error:
            if len(group) == 1:
                return [error]
            # One bad request must not take the others with it.
            return [outcome for one in group for outcome in self._outcomes([one])]

    def _commit(self, group: list[_Request], *, patient: bool = True) -> list[Any]:
        kinds: dict[Write, list[int]] = {}
        for place, (demand, _) in enumerate(group):
            kinds.setdefault(demand.write, []).append(place)
        # Claims come last, so that they see what was added and finished with them.
        order = sorted(kinds.items(), key=lambda kind: kind[0] is claim)
        answers = self._book.commit(
            [(write, [group[place][0].request for place in places]) for write, places in order],
            patient=patient,
        )
        outcomes: list[Any] = [None] * len(group)
        for (_, places), results in zip(order, answers, strict=True):
            for place, result in zip(places, results, strict=True):
                outcomes[place] = result
        return outcomes


def _answer(group: list[_Request], outcomes: list[Any]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for (_, future), outcome in zip(group, outcomes, strict=True):
        by_loop.setdefault(future.get_loop(), []).append((future, outcome))
    for loop, pairs in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, pairs)
        except RuntimeError:
            continue  # the loop is gone, and with it whoever waited


def _resolve(pairs: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, outcome in pairs:
        if future.done():
            continue  # the waiter was cancelled; the write stands
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
