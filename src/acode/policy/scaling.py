"""How many workers there should be, and which of them go when there are too many."""

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from acode.model.state import WorkerStatus


class Autoscale(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """When the pool grows and shrinks by itself, and by how much."""

    min: int = 2
    max: int = 20
    initial: int = 5
    scale_up_threshold: float = 0.8
    scale_down_threshold: float = 0.2
    scale_up_step: int = 2
    scale_down_step: int = 1
    interval_ms: int = 30_000
    cooldown_ms: int = 60_000

    def __post_init__(self) -> None:
        if not 1 <= self.min <= self.initial <= self.max:
            raise ValueError("autoscale needs 1 <= min <= initial <= max")
        if not 0 <= self.scale_down_threshold < self.scale_up_threshold <= 1:
            raise ValueError("autoscale needs 0 <= scale down threshold < scale up threshold <= 1")
        if self.scale_up_step < 1 or self.scale_down_step < 1:
            raise ValueError("an autoscale step must be at least 1")
        if self.interval_ms < 1 or self.cooldown_ms < 0:
            raise ValueError(
                "autoscale needs an interval of at least 1 ms and no negative cooldown"
            )


class Decision(msgspec.Struct, frozen=True):
    """How many workers there should be, and why, as a sentence for the log."""

    target: int
    reason: str


def decide(
    total: int, active: int, last_scaled_at: int | None, now: int, settings: Autoscale
) -> Decision:
    """How many workers there should be now.

    The bounds hold at once; everything else waits for the end of the cooldown.
    """
    if not settings.min <= total <= settings.max:
        return _back_within_bounds(total, settings)
    wish = _wish(total, active, settings)
    cooldown = _cooldown_left_ms(last_scaled_at, now, settings)
    if wish.target == total or not cooldown:
        return wish
    left = f"inside the cooldown for another {cooldown / 1000:.1f} s"
    return Decision(total, f"{_busy(total, active)}; not scaled to {wish.target}, {left}")


def _back_within_bounds(total: int, settings: Autoscale) -> Decision:
    target, word = (settings.min, "minimum") if total < settings.min else (settings.max, "maximum")
    return Decision(target, f"the pool has {_workers(total)}, its {word} is {target}")


def _wish(total: int, active: int, settings: Autoscale) -> Decision:
    busy = _busy(total, active)
    # Divided, not multiplied: 7 of 100 is exactly 0.07, but 0.07 of 100 is a bit more than 7.
    utilisation = active / total
    if utilisation > settings.scale_up_threshold:
        busy = f"{busy}, above {_percent(settings.scale_up_threshold)}"
        return _grown(total, busy, settings)
    if utilisation < settings.scale_down_threshold:
        busy = f"{busy}, below {_percent(settings.scale_down_threshold)}"
        return _shrunk(total, busy, settings)
    return Decision(total, f"{busy}; as many as needed")


def _grown(total: int, busy: str, settings: Autoscale) -> Decision:
    step = min(settings.scale_up_step, settings.max - total)
    return Decision(total + step, f"{busy}; {f'{step} more' if step else 'the maximum is reached'}")


def _shrunk(total: int, busy: str, settings: Autoscale) -> Decision:
    step = min(settings.scale_down_step, total - settings.min)
    return Decision(
        total - step, f"{busy}; {f'{step} fewer' if step else 'the minimum is reached'}"
    )


def _cooldown_left_ms(last_scaled_at: int | None, now: int, settings: Autoscale) -> int:
    # A clock that was set back must not hold the pool until it has caught up.
    if last_scaled_at is None or last_scaled_at > now:
        return 0
    return max(0, last_scaled_at + settings.cooldown_ms - now)


def _busy(total: int, active: int) -> str:
    return f"{active} of {_workers(total)} busy ({_percent(active / total)})"


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def clamp(count: int, minimum: int, maximum: int) -> tuple[int, str | None]:
    """The nearest count that is allowed, and what to tell a user who asked for another."""
    if count > maximum:
        return maximum, f"scaled to {maximum} instead of {count}: {maximum} is the maximum"
    if count < minimum:
        return minimum, f"scaled to {minimum} instead of {count}: {minimum} is the minimum"
    return count, None


class Stoppable(NamedTuple):
    """A worker that may have to go."""

    id: str
    status: WorkerStatus
    started_at: int | None
    load: int = 0
    """Attempts that it has run so far."""


_FIRST_TO_STOP: Final = (
    WorkerStatus.IDLE,
    WorkerStatus.CRASHED,
    WorkerStatus.STARTING,
    WorkerStatus.ERROR,
    WorkerStatus.BUSY,
)
"""Whose end costs least comes first; the others are going or gone already."""
_RANK: Final = {status: rank for rank, status in enumerate(_FIRST_TO_STOP)}


def choose_to_stop(workers: Iterable[Stoppable], count: int) -> list[str]:
    """Which workers go: idle ones first, busy ones last, the newest first among equals."""
    going = sorted((each for each in workers if each.status in _RANK), key=_stop_order)
    return [worker.id for worker in going[: max(0, count)]]


def _stop_order(worker: Stoppable) -> tuple[int, float, int, str]:
    age = -math.inf if worker.started_at is None else -worker.started_at
    return _RANK[worker.status], age, worker.load, worker.id
