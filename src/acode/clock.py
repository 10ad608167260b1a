"""The only source of time. Moments are milliseconds since the epoch, UTC."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where time comes from; tests bring their own."""

    def now(self) -> int:
        """This moment."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        """This moment."""
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that moves only when told."""

    def __init__(self, now: int = 1_700_000_000_000) -> None:
        self._now = now

    def now(self) -> int:
        """This moment."""
        return self._now

    def advance(self, ms: int) -> None:
        """Let time pass."""
        self._now += ms


def iso(moment: int | None) -> str | None:
    """ISO 8601, UTC, with milliseconds."""
    if moment is None:
        return None
    text = datetime.fromtimestamp(moment / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def from_iso(text: str) -> int:
    """The moment that `iso` wrote."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)
