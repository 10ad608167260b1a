"""What follows from settings, for policies that know nothing of them."""

from acode.model.limits import AttemptLimits, OverLimitAction
from acode.policy.backpressure import PoolCeilings
from acode.policy.limits import Ceiling, Ceilings
from acode.settings.tree import Settings


def usual_limits(settings: Settings) -> AttemptLimits:
    """What an attempt is held to whose task asks for nothing else."""
    limits = settings.workers.limits
    return AttemptLimits(
        cpu_percent=limits.cpu_percent,
        memory_mb=limits.memory_mb,
        disk_mb=limits.disk_mb,
        max_processes=limits.max_processes,
        max_open_files=limits.max_open_files,
        action=OverLimitAction(settings.workers.resources.over_limit_action),
    )


def task_ceilings(settings: Settings) -> Ceilings:
    """The most that a task may ask for; what workers have by default is always allowed."""
    limits, pool = settings.workers.limits, settings.workers.pool_limits
    return Ceilings(
        Ceiling(max(limits.memory_mb, pool.total_memory_mb), "workers.poolLimits.totalMemoryMb"),
        Ceiling(
            max(limits.cpu_percent, pool.total_cpu_percent), "workers.poolLimits.totalCpuPercent"
        ),
        Ceiling(limits.disk_mb, "workers.limits.diskMb"),
    )


def pool_ceilings(settings: Settings) -> PoolCeilings:
    """What all attempts together may use."""
    limits = settings.workers.pool_limits
    return PoolCeilings(limits.total_memory_mb, limits.total_cpu_percent)
