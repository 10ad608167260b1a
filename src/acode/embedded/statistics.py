"""What an embedded pool has done so far, counted as it happens."""

from collections import deque

import msgspec

from acode.model.state import Status

SAMPLES = 100
"""Durations that an average is made of."""


class TypeStats(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks of one handler."""

    completed: int = 0
    failed: int = 0
    runs: int = 0
    """Attempts that have run, those that failed included."""
    average_ms: float = 0.0
    """Over the last 100 runs."""
    longest_ms: float = 0.0


class PoolStats(msgspec.Struct, frozen=True, kw_only=True):
    """An embedded pool at a glance. Counts are of this pool, from its start on."""

    workers_count: int
    active_workers: int
    queued_tasks: int
    submitted_tasks: int
    completed_tasks: int
    failed_tasks: int
    """Tasks that failed for good."""
    average_exec_time_ms: float
    """Over the last 100 attempts that have run."""
    queue_high_water: int
    """The most tasks that have waited at once."""
    by_type: dict[str, TypeStats]


class _Kind:
    """The mutable counts of one handler."""

    __slots__ = ("completed", "failed", "longest", "recent", "runs")

    def __init__(self) -> None:
        self.completed = self.failed = self.runs = 0
        self.longest = 0.0
        self.recent: deque[float] = deque(maxlen=SAMPLES)

    def seen(self) -> TypeStats:
        return TypeStats(
            completed=self.completed,
            failed=self.failed,
            runs=self.runs,
            average_ms=mean_ms(self.recent),
            longest_ms=self.longest * 1000,
        )


class Statistics:
    """Counts what it is told."""

    def __init__(self) -> None:
        self.submitted = self.completed = self.failed = 0
        self.waiting = 0
        self.high_water = 0
        self.recent: deque[float] = deque(maxlen=SAMPLES)
        self._kinds: dict[str, _Kind] = {}

    def waits(self, more: int) -> None:
        """So many tasks more wait, or fewer."""
        self.waiting += more
        if self.waiting > self.high_water:
            self.high_water = self.waiting

    def starts(self) -> None:
        """One task waits no more."""
        self.waiting -= 1

    def ran(self, kind: str, seconds: float) -> None:
        """An attempt has run for so long."""
        self.recent.append(seconds)
        one = self._kind(kind)
        one.recent.append(seconds)
        one.runs += 1
        if seconds > one.longest:
            one.longest = seconds

    def ended(self, kind: str, status: Status) -> None:
        """A task is finished."""
        if status is Status.COMPLETED:
            self.completed += 1
            self._kind(kind).completed += 1
        elif status is Status.FAILED:
            self.failed += 1
            self._kind(kind).failed += 1

    def _kind(self, kind: str) -> _Kind:
        found = self._kinds.get(kind)
        if found is None:
            found = self._kinds[kind] = _Kind()
        return found

    def seen(self, *, workers: int, active: int, in_hand: int) -> PoolStats:
        """Everything, for others to keep."""
        return PoolStats(
            workers_count=workers,
            active_workers=active,
            queued_tasks=self.waiting + in_hand,
            submitted_tasks=self.submitted,
            completed_tasks=self.completed,
            failed_tasks=self.failed,
            average_exec_time_ms=mean_ms(self.recent),
            queue_high_water=self.high_water,
            by_type={name: kind.seen() for name, kind in self._kinds.items()},
        )


def mean_ms(seconds: "deque[float]") -> float:
    """The average in milliseconds; 0 of nothing."""
    return sum(seconds) / len(seconds) * 1000 if seconds else 0.0
