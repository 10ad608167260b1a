"""When no further task is begun, so that the pool keeps to its limits and the machine stays usable.

Every gauge has two marks: the pool pauses at one and goes on at the other, so that it does not
flicker between them.
"""

from collections.abc import Collection, Iterator
from enum import StrEnum
from typing import Final, NamedTuple

MB: Final = 1024 * 1024

LEAST_MEMORY_SHARE: Final = 0.1
LEAST_MEMORY_BYTES: Final = 2048 * MB
"""Of the machine's memory, a tenth but not more than this is left to everybody else."""
LEAST_DISK_SHARE: Final = 0.02
LEAST_DISK_BYTES: Final = 512 * MB
"""Of the disk, likewise."""
STALL_PERCENT: Final = 20.0
"""A machine that stands still for want of memory that long is close to its end."""
RELIEF: Final = 0.9
"""Usage has to fall to this part of its limit before the pool goes on."""
REFILL: Final = 1.25
"""What is left has to grow to this multiple of the least."""


class Gauge(StrEnum):
    """What is looked at."""

    POOL_MEMORY = "pool memory"
    POOL_CPU = "pool cpu"
    MEMORY = "memory"
    STALL = "stall"
    DISK = "disk"


class Load(NamedTuple):
    """What the pool uses and what the machine has left; None is what nobody knows."""

    pool_memory_bytes: int = 0
    pool_cpu_percent: float = 0.0
    memory_bytes: int | None = None
    available_bytes: int | None = None
    memory_stall_percent: float | None = None
    disk_bytes: int | None = None
    disk_free_bytes: int | None = None


class PoolCeilings(NamedTuple):
    """What all attempts together may use."""

    memory_mb: int
    cpu_percent: float


class Held(NamedTuple):
    """One reason why no task is begun."""

    gauge: Gauge
    why: str


class Hold(NamedTuple):
    """Why no further task is begun. While nothing runs, a few may be let in nevertheless."""

    reason: str
    least_running: int

    def admits(self, running: int) -> bool:
        """Whether one more may begin, with so many running."""
        return running < self.least_running


def hold_of(held: Collection[Held]) -> Hold | None:
    """What the reasons mean together; None lets everything in."""
    if not held:
        return None
    # What the pool uses is its own doing: with nothing running it would wait for itself for ever.
    ours = all(each.gauge in (Gauge.POOL_MEMORY, Gauge.POOL_CPU) for each in held)
    return Hold("; ".join(each.why for each in held), 1 if ours else 0)


def held_by(load: Load, ceilings: PoolCeilings, before: Collection[Gauge] = ()) -> list[Held]:
    """Every reason to begin nothing now, given those of the last look."""
    return [
        Held(gauge, why)
        for gauge, pauses, eases, why in _readings(load, ceilings)
        if pauses or (gauge in before and not eases)
    ]


class _Reading(NamedTuple):
    gauge: Gauge
    pauses: bool
    eases: bool
    why: str


def _readings(load: Load, ceilings: PoolCeilings) -> Iterator[_Reading]:
    yield _usage(
        Gauge.POOL_MEMORY,
        load.pool_memory_bytes / MB,
        ceilings.memory_mb,
        "the tasks use {:.0f} MB of memory; workers.poolLimits.totalMemoryMb is {:.0f}",
    )
    yield _usage(
        Gauge.POOL_CPU,
        load.pool_cpu_percent,
        ceilings.cpu_percent,
        "the tasks use {:.0f} % of a core; workers.poolLimits.totalCpuPercent is {:.0f}",
    )
    if load.memory_stall_percent is not None:
        yield _usage(
            Gauge.STALL,
            load.memory_stall_percent,
            STALL_PERCENT,
            "the machine stands still for want of memory {:.0f} % of the time; {:.0f} % is much",
        )
    if load.available_bytes is not None and load.memory_bytes is not None:
        least = min(LEAST_MEMORY_SHARE * load.memory_bytes, LEAST_MEMORY_BYTES)
        yield _rest(Gauge.MEMORY, load.available_bytes, least, "of memory")
    if load.disk_free_bytes is not None and load.disk_bytes is not None:
        least = min(LEAST_DISK_SHARE * load.disk_bytes, LEAST_DISK_BYTES)
        yield _rest(Gauge.DISK, load.disk_free_bytes, least, "on the disk")


def _usage(gauge: Gauge, used: float, most: float, words: str) -> _Reading:
    return _Reading(gauge, used >= most, used < RELIEF * most, words.format(used, most))


def _rest(gauge: Gauge, left: float, least: float, where: str) -> _Reading:
    words = f"the machine has {left / MB:.0f} MB {where} left; {least / MB:.0f} MB are kept free"
    return _Reading(gauge, left < least, left >= REFILL * least, words)
