"""Figures of the pool since it was started: counters, durations, and samples over time."""

from bisect import bisect_left
from collections import Counter, deque
from typing import Any

from acode.model.event import (
    PoolEvent,
    PoolScaled,
    TaskEnded,
    TaskRefused,
    WorkerCrashed,
    WorkerFailed,
    WorkerStarted,
)
from acode.model.state import Status

COUNTED: tuple[type[PoolEvent], ...] = (
    TaskEnded,
    WorkerStarted,
    WorkerCrashed,
    WorkerFailed,
    TaskRefused,
    PoolScaled,
)

BOUNDS_MS = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000)
LONG_BOUNDS_MS = (300_000, 900_000, 3_600_000)
SAMPLES = 720
"""An hour of samples, one in five seconds."""


class Histogram:
    """How many took how long. The last bucket has no bound."""

    BOUNDS = (*BOUNDS_MS, *LONG_BOUNDS_MS)

    def __init__(self) -> None:
        self.buckets = [0] * (len(self.BOUNDS) + 1)
        self.total = 0

    def add(self, ms: int) -> None:
        """One more."""
        self.buckets[bisect_left(self.BOUNDS, ms)] += 1
        self.total += ms


class Figures:
    """Listens to the engine and counts. It knows nothing that an event did not say."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.ended: Counter[tuple[str, str]] = Counter()
        """By kind and by what became of the task."""
        self.durations: dict[str, Histogram] = {}
        self.high_water = 0
        self.samples: deque[dict[str, Any]] = deque(maxlen=SAMPLES)

    def hear(self, event: PoolEvent) -> None:
        """Count one event."""
        match event:
            case TaskEnded():
                self._ended(event)
            case WorkerStarted(adopted=adopted):
                self.counters["adopted" if adopted else "started"] += 1
            case WorkerCrashed(restart_in_ms=later):
                self.counters["crashed"] += 1
                self.counters["restarted"] += later is not None
            case WorkerFailed():
                self.counters["given_up"] += 1
            case TaskRefused():
                self.counters["refused"] += 1
            case PoolScaled():
                self.counters["scaled"] += 1
            case _:
                return

    def _ended(self, event: TaskEnded) -> None:
        if not event.counts:
            self.counters["released"] += 1
            return
        self.ended[event.kind, event.status.value] += 1
        if event.status is Status.COMPLETED:
            self.durations.setdefault(event.kind, Histogram()).add(event.took_ms)

    def remember(self, before: list[dict[str, Any]]) -> None:
        """Samples of the time before the first one, as far back as there is room for."""
        room = SAMPLES - len(self.samples)
        self.samples.extendleft(reversed(before[max(0, len(before) - room) :]))

    def total(self, status: Status) -> int:
        """Attempts of all kinds after which the task had this status."""
        return sum(count for (_, became), count in self.ended.items() if became == status)

    def saw_waiting(self, count: int) -> None:
        """So many tasks wait; the most that were ever seen are kept."""
        self.high_water = max(self.high_water, count)

    def view(self) -> dict[str, Any]:
        """Everything, as JSON."""
        return {
            "counters": dict(self.counters),
            "ended": [
                {"type": kind, "status": status, "count": count}
                for (kind, status), count in sorted(self.ended.items())
            ],
            "durations": {
                kind: {"buckets": each.buckets, "totalMs": each.total}
                for kind, each in sorted(self.durations.items())
            },
            "boundsMs": Histogram.BOUNDS,
            "queueHighWater": self.high_water,
        }
