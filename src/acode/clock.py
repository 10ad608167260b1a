"""The only source of time. Moments are milliseconds since the epoch, UTC."""

import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol


class Clock(Protocol):
    """Where time comes from; tests bring their own."""

    def now(self) -> int:
        """The present moment."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        """The present moment."""
        return time.time_ns() // 1_000_000


class RemoteClock:
    """The clock of another machine, as it was last told, carried on by what passes here."""

    def __init__(self) -> None:
        self._ahead = SystemClock().now() - round(time.monotonic() * 1000)

    def now(self) -> int:
        """The present moment over there."""
        return self._ahead + round(time.monotonic() * 1000)

    def tell(self, now: int) -> None:
        """It is this moment over there."""
        self._ahead = now - round(time.monotonic() * 1000)


class ManualClock:
    """A clock that moves only when told."""

    def __init__(self, now: int = 1_700_000_000_000) -> None:
        self._now = now

    def now(self) -> int:
        """The present moment."""
        return self._now

    def advance(self, ms: int) -> None:
        """Let time pass."""
        self._now += ms


def iso(moment: int | None) -> str | None:
    """ISO 8601, UTC, with milliseconds."""
    if moment is None:
        return None
    seconds, ms = divmod(moment, 1000)
    return f"{_second(seconds)}.{ms:03}Z"


@lru_cache(256)
def _second(seconds: int) -> str:
    """Moments come in bunches, so most of the text is there already."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]


def from_iso(text: str) -> int:
    """The moment that `iso` wrote."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


class Deadline:
    """A bounded wait on the monotonic clock, which no change of the wall clock disturbs."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds until the end; negative after it."""
        return self._end - time.monotonic()

    def rest(self, seconds: float) -> bool:
        """Sleep a little and say whether there was time left for it."""
        left = self.left()
        if left <= 0:
            return False
        time.sleep(min(seconds, left))
        return True


ticks = time.monotonic
"""Seconds on the monotonic clock, for measuring spans. Asked for so often that a call counts."""


def uptime() -> float:
    """Seconds since the machine was started, those that it slept included; nobody sets it.

    The same for every process of the machine, so it can be told to another one.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)
