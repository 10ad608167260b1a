"""Many writes in one commit, many commits in one wait for the disk.

A thread does both, or the loop itself while that is quicker. Imported only where it is used:
threads cost.
"""

import asyncio
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from acode.clock import ticks
from acode.errors import AcodeError, DiskFull, StoreBusy, StoreUnavailable, StoreUnusable
from acode.store.sql.claims import claim
from acode.store.sql.writer import Book, Demand, Write

MAX_GROUP = 1000
"""Requests in one commit; bounds the time that other processes wait for the lock."""

MAX_HERE = 128
"""Requests that the loop writes by itself at most."""
SLOW_SECONDS = 0.005
"""A loop that a commit held up for longer leaves the writing to the thread."""
SLOW_SYNC_SECONDS = 0.0005
"""The same for the disk, which many commits can wait for at once."""
SLOW_REST_SECONDS = 1.0
"""Until it tries again: so it is held up for a small part of the time, however slow the disk."""
LULL_SECONDS = 0.01
"""Where nobody has written for so long, hardly anybody will in the next millisecond."""
LULL_COMMITS = 64
"""After so many the thread waits for a lull, to do what would hold up a commit some day."""


class _Request(NamedTuple):
    demand: Demand
    future: asyncio.Future[Any]
    """Whoever waits for it."""


class _Seen(NamedTuple):
    """What somebody wants to hear although it is only committed."""

    future: asyncio.Future[Any]
    outcome: Any
    hear: Callable[[Any], object]


class _Promise(NamedTuple):
    """What may be said when the disk has everything that is committed now."""

    future: asyncio.Future[Any]
    outcome: Any = None
    """An exception is raised to whoever waits."""


class _Nudge(NamedTuple):
    """Tells the thread to look for a lull."""


class GroupWriter:
    """Takes whatever is waiting, commits it once, brings it to the disk, and answers everybody."""

    def __init__(self, book: Book, *, here: bool = True) -> None:
        self._book = book
        self._here = here  # the loop may write, too
        self._waiting: SimpleQueue[_Request | _Promise | _Nudge | None] = SimpleQueue()
        self._gathered: dict[asyncio.AbstractEventLoop, list[_Request | _Promise]] = {}
        """What a loop has asked for in its present turn."""
        self._stopped = False
        self._gate = threading.Lock()
        self._writing = threading.Lock()
        """Whoever has it owns the connection."""
        self._requested = 0
        """Writes that the thread has not made yet: what comes later must not overtake them."""
        self._owed: Counter[asyncio.AbstractEventLoop] = Counter()
        """How much a loop has left to the thread and has not heard of yet."""
        self._write_again = 0.0
        self._sync_again = 0.0
        """When the loop may try again by itself."""
        self._commits = 0
        """Since the last lull that was used."""
        self._thread = threading.Thread(target=self._run, name="acode-writer", daemon=True)
        self._thread.start()

    async def write(self, demand: Demand) -> Any:
        """Queue one write; returns when it is on disk, or when it is committed if that will do."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._gather(future.get_loop(), [_Request(demand, future)])
        return await future

    async def settle(self) -> None:
        """Returns when everything that was committed before is on disk."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._gather(future.get_loop(), [_Promise(future)])
        await future

    def _gather(
        self, loop: asyncio.AbstractEventLoop, wishes: Sequence[_Request | _Promise]
    ) -> None:
        with self._gate:
            if self._stopped:
                raise StoreUnusable("the store is closed")
            gathered = self._gathered.setdefault(loop, [])
            gathered += wishes
        if len(gathered) == len(wishes):
            # Not at once: the thread would run off with the first of many.
            loop.call_soon(self._hand_over, loop)

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._gate:
            group = self._gathered.pop(loop, [])
            here = self._may_write_here(group)
            if not here:
                self._queue(group)
        if here:
            self._write_here(group)

    def _may_write_here(self, group: list[_Request | _Promise]) -> bool:
        """Whether the loop may write: it takes no time, and nobody else is at it."""
        small = self._here and 0 < len(group) <= MAX_HERE and all(map(_is_quick, group))
        free = small and not self._requested and ticks() >= self._write_again
        return free and self._writing.acquire(blocking=False)

    def _write_here(self, group: list[_Request | _Promise]) -> None:
        requests, promises = _sorted_out(group)
        began = ticks()
        try:
            outcomes = self._commit(requests, patient=False)
        except Exception:
            # The thread waits for locks, and finds out whose fault it was.
            with self._gate:
                self._queue(group)
        else:
            self._rest_if_slow(began)
            early, late = _answers(requests, outcomes)
            _answer(early)
            self._keep_here(promises)
            self._keep_soon(late)
            if requests and self._commits == LULL_COMMITS:
                self._waiting.put(_Nudge())
        finally:
            self._writing.release()

    def _rest_if_slow(self, began: float) -> None:
        if ticks() - began > SLOW_SECONDS:
            self._write_again = ticks() + SLOW_REST_SECONDS

    def _keep_soon(self, promises: list[_Promise]) -> None:
        """Whoever has been answered goes on before the loop waits for the disk."""
        if not promises:
            return
        try:
            self._gather(promises[0].future.get_loop(), promises)
        except StoreUnusable:
            with self._gate:
                self._queue(promises)

    def _keep_here(self, promises: list[_Promise]) -> None:
        """Wait for the disk if it is quick; otherwise the loop has better things to do."""
        if not promises:
            return
        began = ticks()
        if began < self._sync_again or self._owed[promises[0].future.get_loop()]:
            with self._gate:
                self._queue(promises)
            return
        _answer(self._kept(promises))
        if ticks() - began > SLOW_SYNC_SECONDS:
            self._sync_again = ticks() + SLOW_REST_SECONDS

    def _queue(self, group: Iterable[_Request | _Promise]) -> None:
        """Leave it to the thread; whoever calls this has the gate."""
        for wish in group:
            self._requested += isinstance(wish, _Request)
            self._owed[wish.future.get_loop()] += 1
            self._waiting.put(wish)

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
            requests, promises = _sorted_out(group)
            if requests:
                with self._writing:
                    outcomes = self._outcomes(requests)
                with self._gate:
                    self._requested -= len(requests)
                early, late = _answers(requests, outcomes)
                self._tell(early)
                promises += late
            if promises:
                self._tell(self._kept(promises))
        with suppress(AcodeError):  # nobody waits for it any more
            self._book.sync()

    def _kept(self, promises: list[_Promise]) -> list[_Promise]:
        """Wait for the disk: now they may be told, unless it failed."""
        try:
            self._book.sync()
        except AcodeError as error:
            return [promise._replace(outcome=error) for promise in promises]
        return promises

    def _tell(self, answers: Sequence[_Seen | _Promise]) -> None:
        """Answer from the thread, each loop once."""
        by_loop: dict[asyncio.AbstractEventLoop, list[_Seen | _Promise]] = {}
        for answer in answers:
            by_loop.setdefault(answer.future.get_loop(), []).append(answer)
        for loop, together in by_loop.items():
            with suppress(RuntimeError):  # the loop is gone, and with it whoever waited
                loop.call_soon_threadsafe(self._hear, loop, together)

    def _hear(self, loop: asyncio.AbstractEventLoop, answers: list[_Seen | _Promise]) -> None:
        self._owed[loop] -= sum(isinstance(answer, _Promise) for answer in answers)
        _answer(answers)

    def _next_group(self) -> list[_Request | _Promise] | None:
        first = self._next()
        if first is None:
            return None
        group = [] if isinstance(first, _Nudge) else [first]
        while len(group) < MAX_GROUP:
            try:
                wish = self._waiting.get_nowait()
            except Empty:
                break
            if wish is None:
                self._waiting.put(None)
                break
            if not isinstance(wish, _Nudge):
                group.append(wish)
        return group

    def _next(self) -> _Request | _Promise | _Nudge | None:
        while self._commits >= LULL_COMMITS:
            before = self._commits
            try:
                return self._waiting.get(timeout=LULL_SECONDS)
            except Empty:
                if self._commits == before:
                    self._tidy()
        return self._waiting.get()

    def _tidy(self) -> None:
        with self._writing:
            self._commits = 0
            self._book.tidy()

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
        if not group:
            return []
        self._commits += 1
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


def _is_quick(wish: _Request | _Promise) -> bool:
    return isinstance(wish, _Promise) or wish.demand.quick


def _sorted_out(group: list[_Request | _Promise]) -> tuple[list[_Request], list[_Promise]]:
    requests = [wish for wish in group if isinstance(wish, _Request)]
    return requests, [wish for wish in group if isinstance(wish, _Promise)]


def _answers(
    requests: list[_Request], outcomes: list[Any]
) -> tuple[list[_Seen | _Promise], list[_Promise]]:
    """What can be said now that it is committed, and what only when it is on disk."""
    early: list[_Seen | _Promise] = []
    late: list[_Promise] = []
    for (demand, future), outcome in zip(requests, outcomes, strict=True):
        failed = isinstance(outcome, Exception)
        if demand.seen is not None and not failed:
            early.append(_Seen(future, outcome, demand.seen))
        if failed or demand.early:
            early.append(_Promise(future, outcome))
        else:
            late.append(_Promise(future, outcome))
    return early, late


def _answer(answers: Sequence[_Seen | _Promise]) -> None:
    for answer in answers:
        if isinstance(answer, _Seen):
            answer.hear(answer.outcome)
        elif not answer.future.done():  # else the waiter was cancelled; the write stands
            _resolve(answer)


def _resolve(promise: _Promise) -> None:
    if isinstance(promise.outcome, Exception):
        promise.future.set_exception(promise.outcome)
    else:
        promise.future.set_result(promise.outcome)
