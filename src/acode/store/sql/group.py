"""Many writes in one commit, many commits in one wait for the disk.

A thread does both, or the loop itself while that is quicker. Imported only where it is used:
threads cost.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from acode.clock import ticks
from acode.errors import AcodeError, DiskFull, StoreBusy, StoreUnavailable, StoreUnusable
from acode.store.sql.claims import claim
from acode.store.sql.turns import (
    MAX_GROUP,
    Nudge,
    Promise,
    Request,
    Turn,
    answer,
    call,
    committed,
    join,
    tell,
)
from acode.store.sql.writer import Book, Demand, Write

MAX_HERE = 128
"""Requests that the loop writes by itself at most."""
SLOW_SECONDS = 0.005
"""A loop that a commit held up for longer leaves the writing to the thread."""
SLOW_SYNC_SECONDS = 0.0005
"""The same for the disk, which many commits can wait for at once."""
SLOW_SHARE = 0.02
"""The part of its time for which it is held up so at most, however slow the disk: it tries again
when that much time has passed."""
LULL_SECONDS = 0.01
"""Where nobody has written for so long, hardly anybody will in the next millisecond."""
LULL_COMMITS = 64
"""After so many the thread waits for a lull, to do what would hold up a commit some day."""


class GroupWriter:
    """Takes whatever is waiting, commits it once, brings it to the disk, and answers everybody."""

    def __init__(self, book: Book, *, here: bool = True) -> None:
        self._book = book
        self._here = here  # the loop may write, too
        self._waiting: SimpleQueue[Turn | Nudge | None] = SimpleQueue()
        self._gathered: dict[asyncio.AbstractEventLoop, Turn] = {}
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

    def write(self, demand: Demand) -> asyncio.Future[Any]:
        """Queue one write; done when it is on disk, or when it is committed if that will do."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        with self._gate:
            self._turn_of(loop).requests.append(Request(future, demand=demand))
        return future

    def settle(self) -> asyncio.Future[Any]:
        """Done when everything that was committed before is on disk."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        with self._gate:
            self._turn_of(loop).promises.append(Promise(future))
        return future

    def _turn_of(self, loop: asyncio.AbstractEventLoop) -> Turn:
        """The present turn of a loop; whoever calls this has the gate."""
        turn = self._gathered.get(loop)
        if turn is None:
            if self._stopped:
                raise StoreUnusable("the store is closed")
            turn = self._gathered[loop] = Turn(loop)
            # Not at once: the thread would run off with the first of many.
            loop.call_soon(self._hand_over, loop)
        return turn

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._gate:
            turn = self._gathered.pop(loop, None)
            if turn is None:
                return  # handed over when the store was closed
            here = self._may_write_here(turn)
            if not here:
                self._queue(turn)
        if here:
            self._write_here(turn)

    def _may_write_here(self, turn: Turn) -> bool:
        """Whether the loop may write: it takes no time, and nobody else is at it."""
        free = self._here and not self._requested and ticks() >= self._write_again
        small = free and len(turn) <= MAX_HERE
        quick = small and all(one.demand.quick for one in turn.requests)
        return quick and self._writing.acquire(blocking=False)

    def _write_here(self, turn: Turn) -> None:
        began = ticks()
        try:
            self._commit(turn.requests, patient=False)
        except Exception:
            # The thread waits for locks, and finds out whose fault it was.
            with self._gate:
                self._queue(turn)
        else:
            self._rest_if_slow(began)
            news, late = committed(turn.requests)
            tell(news)
            self._keep_here(turn.loop, turn.promises)
            self._keep_soon(turn.loop, late)
            if turn.requests and self._commits == LULL_COMMITS:
                self._waiting.put(Nudge())
        finally:
            self._writing.release()

    def _rest_if_slow(self, began: float) -> None:
        now = ticks()
        if now - began > SLOW_SECONDS:
            self._write_again = now + (now - began) / SLOW_SHARE

    def _keep_soon(self, loop: asyncio.AbstractEventLoop, promises: list[Promise]) -> None:
        """Whoever has been answered goes on before the loop waits for the disk."""
        if not promises:
            return
        with self._gate:
            if self._stopped:
                self._queue(Turn(loop, [], promises))
            else:
                self._turn_of(loop).promises += promises

    def _keep_here(self, loop: asyncio.AbstractEventLoop, promises: list[Promise]) -> None:
        """Wait for the disk if it is quick; otherwise the loop has better things to do."""
        if not promises:
            return
        began = ticks()
        if began < self._sync_again or self._owed[loop]:
            with self._gate:
                self._queue(Turn(loop, [], promises))
            return
        self._keep(promises)
        answer(promises)
        now = ticks()
        if now - began > SLOW_SYNC_SECONDS:
            self._sync_again = now + (now - began) / SLOW_SHARE

    def _keep(self, promises: Iterable[Promise]) -> None:
        """Wait for the disk: now they may be told, unless it failed."""
        try:
            self._book.sync()
        except AcodeError as error:
            for promise in promises:
                promise.outcome = error

    def _queue(self, turn: Turn) -> None:
        """Leave it to the thread; whoever calls this has the gate."""
        self._requested += len(turn.requests)
        self._owed[turn.loop] += len(turn)
        for part in turn.parts():
            self._waiting.put(part)

    def stop(self) -> None:
        """Finish what was asked for; safe to call twice."""
        with self._gate:
            self._stopped = True
            for turn in self._gathered.values():
                self._queue(turn)
            self._gathered.clear()
        # Nothing may come after the mark of the end: it would never be answered.
        with self._writing:
            self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (turns := self._next_turns()) is not None:
            requests = [one for turn in turns for one in turn.requests]
            if requests:
                with self._writing:
                    self._write(requests)
                with self._gate:
                    self._requested -= len(requests)
            promised = [(turn.loop, self._tell_from_here(turn)) for turn in turns]
            if kept := [one for _, promises in promised for one in promises]:
                self._keep(kept)
            for loop, promises in promised:
                call(loop, self._hear_kept, promises)
        with suppress(AcodeError):  # nobody waits for it any more
            self._book.sync()

    def _tell_from_here(self, turn: Turn) -> list[Promise]:
        """Let a loop hear what is committed; who waits for the disk."""
        news, late = committed(turn.requests)
        call(turn.loop, self._hear, news)
        return turn.promises + late

    def _hear(self, loop: asyncio.AbstractEventLoop, news: list[Request]) -> None:
        self._owed[loop] -= tell(news)

    def _hear_kept(self, loop: asyncio.AbstractEventLoop, promises: list[Promise]) -> None:
        self._owed[loop] -= len(promises)
        answer(promises)

    def _next_turns(self) -> list[Turn] | None:
        """Whatever waits, one turn for each loop; None when nothing more will come."""
        first = self._next()
        if first is None:
            return None
        turns: dict[asyncio.AbstractEventLoop, Turn] = {}
        size = join(turns, first)
        while size < MAX_GROUP:
            try:
                found = self._waiting.get_nowait()
            except Empty:
                break
            if found is None:
                self._waiting.put(None)
                break
            size += join(turns, found)
        return list(turns.values())

    def _next(self) -> Turn | Nudge | None:
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

    def _write(self, requests: list[Request]) -> None:
        try:
            self._commit(requests)
        except (DiskFull, StoreBusy, StoreUnavailable) as error:
            # The same for everybody; finding out one by one would take for ever.
            for one in requests:
                one.outcome = error
        except Exception as error:
            # One bad request must not take the others with it.
            if len(requests) == 1:
                requests[0].outcome = error
                return
            for one in requests:
                self._write([one])

    def _commit(self, requests: list[Request], *, patient: bool = True) -> None:
        if not requests:
            return
        self._commits += 1
        kinds: dict[Write, list[Request]] = {}
        for one in requests:
            kinds.setdefault(one.demand.write, []).append(one)
        # Claims come last, so that they see what was added and finished with them.
        order = sorted(kinds.items(), key=lambda kind: kind[0] is claim)
        writes = [(write, [one.demand.request for one in alike]) for write, alike in order]
        rings = [one.demand.ring for one in requests if one.demand.ring is not None]
        answers = self._book.commit(writes, patient=patient, rings=rings)
        for (_, alike), results in zip(order, answers, strict=True):
            for one, result in zip(alike, results, strict=True):
                one.outcome = result
