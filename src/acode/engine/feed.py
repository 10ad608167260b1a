"""The daemon's end of the feed: takes events as they come, writes them in batches."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress

from acode.clock import Clock
from acode.errors import AcodeError
from acode.model.event import PoolEvent, told
from acode.observe.feed import FeedWriter, Told
from acode.store.base import Store

REST_SECONDS = 0.25
"""How long an event may stay in memory when nobody asks for it."""
MAX_WAITING = 100_000
"""Beyond that the oldest are given up: the store is in trouble, and memory is not endless."""


class Feed:
    """Hearing an event costs an append; numbering and writing are done for many at once."""

    def __init__(self, path: str, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._writer = FeedWriter(path)
        self._waiting: list[tuple[PoolEvent, int]] = []
        self._flushing = asyncio.Lock()

    def hear(self, event: PoolEvent) -> None:
        """Keep an event until the next flush."""
        self._waiting.append((event, self._clock.now()))
        if len(self._waiting) > MAX_WAITING:
            del self._waiting[:-MAX_WAITING]

    async def flush(self) -> int:
        """Write what waits; the move up to which everything is in the feed."""
        async with self._flushing:
            newest = await self._store.newest_move()
            waiting, self._waiting = self._waiting, []
            try:
                self._writer.write(list(_worded(waiting)), newest)
            except OSError:  # a full disk; there may be room the next time
                self._waiting = [*waiting, *self._waiting]
            return newest

    async def tick(self) -> float:
        """Let nothing wait for ever."""
        if self._waiting:
            await self.flush()
        return REST_SECONDS

    async def close(self) -> None:
        """Write the rest, unless the store that numbers it is away."""
        with suppress(AcodeError):
            await self.flush()
        self._writer.close()


def _worded(events: list[tuple[PoolEvent, int]]) -> Iterator[Told]:
    for event, at in events:
        if (words := told(event)) is not None:
            yield Told(*words, at)
