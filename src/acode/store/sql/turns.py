"""What a loop asks for in one of its turns, and how it hears what came of it."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from acode.store.sql.writer import Demand

MAX_GROUP = 1000
"""Where so many requests are gathered, no more are: it bounds the time that other processes wait
for the lock."""


class Promise(msgspec.Struct, eq=False):
    """Somebody waits until the disk has everything that is committed now."""

    future: asyncio.Future[Any]
    outcome: Any = None
    """Once it is done. An exception is raised to whoever waits."""


class Request(Promise, kw_only=True):
    """Somebody waits for a write, and when it is committed perhaps for the disk."""

    demand: Demand


class Turn(msgspec.Struct, eq=False):
    """What a loop asked for in one of its turns, or in some that are answered together."""

    loop: asyncio.AbstractEventLoop
    requests: list[Request] = []
    promises: list[Promise] = []

    def __len__(self) -> int:
        return len(self.requests) + len(self.promises)

    def parts(self) -> Iterator["Turn"]:
        """The same in pieces that are not too large."""
        if len(self) <= MAX_GROUP:
            yield self
            return
        for start in range(0, len(self.requests), MAX_GROUP):
            yield Turn(self.loop, self.requests[start : start + MAX_GROUP])
        yield Turn(self.loop, [], self.promises)


W = TypeVar("W", Request, Promise)


class Nudge(msgspec.Struct):
    """Tells the thread to look for a lull."""


def join(turns: dict[asyncio.AbstractEventLoop, Turn], found: Turn | Nudge) -> int:
    """Add what was found to what else its loop has asked for; how much it is."""
    if isinstance(found, Nudge):
        return 0
    turn = turns.setdefault(found.loop, found)
    if turn is not found:
        turn.requests += found.requests
        turn.promises += found.promises
    return len(found)


def committed(requests: list[Request]) -> tuple[list[Request], list[Promise]]:
    """Who hears of it now, and what may be said only when it is on disk."""
    news: list[Request] = []
    late: list[Promise] = []
    for one in requests:
        over = one.demand.early or isinstance(one.outcome, Exception)
        if over or one.demand.seen is not None:
            news.append(one)
        if not over:
            late.append(one)
    return news, late


def tell(news: Iterable[Request]) -> int:
    """Say what can be said now that it is committed; to how many that was the answer."""
    answered = []
    for one in news:
        failed = isinstance(one.outcome, Exception)
        if one.demand.seen is not None and not failed:
            one.demand.seen(one.outcome)
        if one.demand.early or failed:
            answered.append(one)
    answer(answered)
    return len(answered)


def answer(promises: Iterable[Promise]) -> None:
    """Let those who wait go on, with what came of it."""
    for one in promises:
        if one.future.done():  # the waiter was cancelled; the write stands
            continue
        if isinstance(one.outcome, Exception):
            one.future.set_exception(one.outcome)
        else:
            one.future.set_result(one.outcome)


def call(
    loop: asyncio.AbstractEventLoop,
    hear: Callable[[asyncio.AbstractEventLoop, list[W]], None],
    wishes: list[W],
) -> None:
    """Let a loop hear something, from the thread."""
    if wishes:
        with suppress(RuntimeError):  # the loop is gone, and with it whoever waited
            loop.call_soon_threadsafe(hear, loop, wishes)
