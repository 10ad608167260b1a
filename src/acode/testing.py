"""For tests of programs that embed acode: a pool whose clock never makes anybody wait."""

from typing import Any

from acode.clock import ManualClock
from acode.embedded.heart import Heart
from acode.embedded.pool import Pool
from acode.embedded.wanted import Wanted

__all__ = ["InstantPool", "ManualClock"]


class _InstantHeart(Heart):
    """When nothing runs and something waits for its time, that time is now."""

    def __init__(self, wanted: Wanted, clock: ManualClock) -> None:
        super().__init__(wanted, clock)
        self._manual = clock

    async def tick(self) -> float:
        """One look at the queue; if it rests until a moment, the clock goes there."""
        rest = await super().tick()
        if self.crew.is_idle():
            oldest = (await self.store.counts()).oldest_ready_at
            ahead = 0 if oldest is None else oldest - self._manual.now()
            if ahead > 0:
                self._manual.advance(ahead)
                return 0.0
        return rest


class InstantPool(Pool):
    """A pool in memory with an injected clock: delays and waits between retries take no time.

    Everything else is real: the store, the dispatcher, the policies and your handlers. `clock`
    starts where you like and only goes forward, to the moment that the next task waits for.
    """

    def __init__(self, *, clock: ManualClock | None = None, **options: Any) -> None:
        self.clock = clock or ManualClock()
        super().__init__(clock=self.clock, **options)

    def _made(self) -> Heart:
        return _InstantHeart(self._wanted, self.clock)
