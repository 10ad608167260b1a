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
from typing import Any, TypeVar

import msgspec

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
SLOW_SHARE = 0.02
"""The part of its time for which it is held up so at most, however slow the disk: it tries again
when that much time has passed."""
LULL_SECONDS = 0.01
"""Where nobody has written for so long, hardly anybody will in the next millisecond."""
LULL_COMMITS = 64
"""After so many the thread waits for a lull, to do what would hold up a commit some day."""


class _Request(msgspec.Struct, eq=False):
    """Somebody waits for a write."""

    demand: Demand
    future: asyncio.Future[Any]
    outcome: Any = None
    """Once it is committed. An exception is raised to whoever waits."""


class _Promise(msgspec.Struct, eq=False):
    """What may be said when the disk has everything that is committed now."""

    future: asyncio.Future[Any]
    outcome: Any = None


_Wish = _Request | _Promise
W = TypeVar("W", _Request, _Promise)


class _Nudge(msgspec.Struct):
    """Tells the thread to look for a lull."""


class GroupWriter:
    """Takes whatever is waiting, commits it once, brings it to the disk, and answers everybody."""

    def __init__(self, book: Book, *, here: bool = True) -> None:
        self._book = book
        self._here = here  # the loop may write, too
        self._waiting: SimpleQueue[_Wish | _Nudge | None] = SimpleQueue()
        self._gathered: dict[asyncio.AbstractEventLoop, list[_Wish]] = {}
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
        self._gather(loop, [_Request(demand, future)])
        return future

    def settle(self) -> asyncio.Future[Any]:
        """Done when everything that was committed before is on disk."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._gather(loop, [_Promise(future)])
        return future

    def _gather(self, loop: asyncio.AbstractEventLoop, wishes: Sequence[_Wish]) -> None:
        with self._gate:
            if self._stopped:
                raise StoreUnusable("the store is closed")
            gathered = self._gathered.get(loop)
            if gathered is not None:
                gathered += wishes
                return
            self._gathered[loop] = [*wishes]
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

    def _may_write_here(self, group: list[_Wish]) -> bool:
        """Whether the loop may write: it takes no time, and nobody else is at it."""
        small = self._here and 0 < len(group) <= MAX_HERE
        quick = small and all(isinstance(one, _Promise) or one.demand.quick for one in group)
        free = quick and not self._requested and ticks() >= self._write_again
        return free and self._writing.acquire(blocking=False)

    def _write_here(self, group: list[_Wish]) -> None:
        requests, promises = _sorted_out(group)
        began = ticks()
        try:
            self._commit(requests, patient=False)
        except Exception:
            # The thread waits for locks, and finds out whose fault it was.
            with self._gate:
                self._queue(group)
        else:
            self._rest_if_slow(began)
            news, late = _committed(requests)
            _tell(news)
            self._keep_here(promises)
            self._keep_soon(late)
            if requests and self._commits == LULL_COMMITS:
                self._waiting.put(_Nudge())
        finally:
            self._writing.release()

    def _rest_if_slow(self, began: float) -> None:
        now = ticks()
        if now - began > SLOW_SECONDS:
            self._write_again = now + (now - began) / SLOW_SHARE

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
        self._keep(promises)
        _answer(promises)
        now = ticks()
        if now - began > SLOW_SYNC_SECONDS:
            self._sync_again = now + (now - began) / SLOW_SHARE

    def _keep(self, promises: list[_Promise]) -> None:
        """Wait for the disk: now they may be told, unless it failed."""
        try:
            self._book.sync()
        except AcodeError as error:
            for promise in promises:
                promise.outcome = error

    def _queue(self, group: Iterable[_Wish]) -> None:
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
                    self._write(requests)
                with self._gate:
                    self._requested -= len(requests)
                news, late = _committed(requests)
                _by_loop(news, self._hear)
                promises += late
            if promises:
                self._keep(promises)
                _by_loop(promises, self._hear_kept)
        with suppress(AcodeError):  # nobody waits for it any more
            self._book.sync()

    def _hear(self, loop: asyncio.AbstractEventLoop, news: list[_Request]) -> None:
        self._owed[loop] -= _tell(news)

    def _hear_kept(self, loop: asyncio.AbstractEventLoop, promises: list[_Promise]) -> None:
        self._owed[loop] -= len(promises)
        _answer(promises)

    def _next_group(self) -> list[_Wish] | None:
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

    def _next(self) -> _Wish | _Nudge | None:
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

    def _write(self, requests: list[_Request]) -> None:
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

    def _commit(self, requests: list[_Request], *, patient: bool = True) -> None:
        if not requests:
            return
        self._commits += 1
        kinds: dict[Write, list[_Request]] = {}
        for one in requests:
            kinds.setdefault(one.demand.write, []).append(one)
        # Claims come last, so that they see what was added and finished with them.
        order = sorted(kinds.items(), key=lambda kind: kind[0] is claim)
        writes = [(write, [one.demand.request for one in alike]) for write, alike in order]
        answers = self._book.commit(writes, patient=patient)
        for (_, alike), results in zip(order, answers, strict=True):
            for one, result in zip(alike, results, strict=True):
                one.outcome = result


def _sorted_out(group: list[_Wish]) -> tuple[list[_Request], list[_Promise]]:
    requests = [wish for wish in group if isinstance(wish, _Request)]
    return requests, [wish for wish in group if isinstance(wish, _Promise)]


def _committed(requests: list[_Request]) -> tuple[list[_Request], list[_Promise]]:
    """Who hears of it now, and what may be said only when it is on disk."""
    news: list[_Request] = []
    late: list[_Promise] = []
    for one in requests:
        over = one.demand.early or isinstance(one.outcome, Exception)
        if over or one.demand.seen is not None:
            news.append(one)
        if not over:
            late.append(_Promise(one.future, one.outcome))
    return news, late


def _tell(news: Iterable[_Request]) -> int:
    """Say what can be said now that it is committed; to how many that was the answer."""
    answered = 0
    for one in news:
        failed = isinstance(one.outcome, Exception)
        if one.demand.seen is not None and not failed:
            one.demand.seen(one.outcome)
        if one.demand.early or failed:
            answered += 1
            _resolve(one)
    return answered


def _answer(promises: Iterable[_Promise]) -> None:
    for promise in promises:
        _resolve(promise)


def _resolve(wish: _Wish) -> None:
    if wish.future.done():  # the waiter was cancelled; the write stands
        return
    if isinstance(wish.outcome, Exception):
        wish.future.set_exception(wish.outcome)
    else:
        wish.future.set_result(wish.outcome)


def _by_loop(
    wishes: Iterable[W], hear: Callable[[asyncio.AbstractEventLoop, list[W]], None]
) -> None:
    """Let each loop hear its own, from the thread."""
    sorted_out: dict[asyncio.AbstractEventLoop, list[W]] = {}
    for wish in wishes:
        sorted_out.setdefault(wish.future.get_loop(), []).append(wish)
    for loop, together in sorted_out.items():
        with suppress(RuntimeError):  # the loop is gone, and with it whoever waited
            loop.call_soon_threadsafe(hear, loop, together)
