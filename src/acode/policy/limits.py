"""Which limits an attempt has gone over, and what a task may ask for."""

from collections.abc import Collection
from typing import Final, NamedTuple

from msgspec.structs import replace

from acode.model.limits import (
    CPU,
    DISK,
    MEGABYTE,
    MEMORY,
    PROCESSES,
    AttemptLimits,
    Over,
    OverLimitAction,
)
from acode.model.task import TaskLimits

CPU_TOLERANCE: Final = 1.1
"""A share of a processor is measured, and a measure is a little off."""
BOMB_FACTOR: Final = 2
"""Where nothing bounds the number of processes, so many times too many are ended in any case."""


class Sampled(NamedTuple):
    """What an attempt was seen to use; None is what was not measured."""

    cpu_percent: float | None = None
    memory_bytes: int | None = None
    processes: int | None = None
    disk_bytes: int | None = None


def overs(used: Sampled, limits: AttemptLimits, enforced: Collection[str] = ()) -> list[Over]:
    """Every limit that was gone over, except those that the kernel enforces; the worst first."""
    found = []
    if used.processes is not None and used.processes > limits.max_processes:
        found.append(Over(PROCESSES, limits.max_processes, used.processes))
    if used.memory_bytes is not None and used.memory_bytes > limits.memory_bytes:
        found.append(Over(MEMORY, limits.memory_mb, _mb(used.memory_bytes)))
    if used.disk_bytes is not None and used.disk_bytes > limits.disk_bytes:
        found.append(Over(DISK, limits.disk_mb, _mb(used.disk_bytes)))
    if used.cpu_percent is not None and used.cpu_percent > limits.cpu_percent * CPU_TOLERANCE:
        found.append(Over(CPU, limits.cpu_percent, round(used.cpu_percent, 1)))
    return [over for over in found if over.what not in enforced]


def _mb(size: int) -> float:
    return round(size / MEGABYTE, 1)


def action_on(over: Over, action: OverLimitAction) -> OverLimitAction:
    """What to do about it: only the processor can be throttled, and a flood must be stopped."""
    if over.what == PROCESSES and over.used > BOMB_FACTOR * over.limit:
        return OverLimitAction.KILL
    if action is OverLimitAction.THROTTLE and over.what != CPU:
        return OverLimitAction.WARN
    return action


def walled(limits: AttemptLimits) -> AttemptLimits:
    """In a container limits are walls, whatever is done about those of processes."""
    return replace(limits, action=OverLimitAction.KILL)


class Ceiling(NamedTuple):
    """The most that a task may ask for, and the setting that says so."""

    most: float
    setting: str


class Ceilings(NamedTuple):
    """What no task gets more of."""

    memory_mb: Ceiling
    cpu_percent: Ceiling
    disk_mb: Ceiling


def granted(asked: TaskLimits, usual: AttemptLimits, ceilings: Ceilings) -> AttemptLimits:
    """The limits of one attempt: what its task asks for, else the usual; never over a ceiling."""
    return AttemptLimits(
        cpu_percent=min(asked.cpu_percent or usual.cpu_percent, ceilings.cpu_percent.most),
        memory_mb=int(min(asked.memory_mb or usual.memory_mb, ceilings.memory_mb.most)),
        disk_mb=int(min(asked.disk_mb or usual.disk_mb, ceilings.disk_mb.most)),
        max_processes=usual.max_processes,
        max_open_files=usual.max_open_files,
        action=usual.action,
    )
