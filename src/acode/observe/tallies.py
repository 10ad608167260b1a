"""A pool in numbers, from what is told of its workers; the same for one host and for many."""

from collections.abc import Mapping, Sequence
from typing import Any

from acode.model.state import WorkerStatus

_MOVING = (WorkerStatus.STARTING, WorkerStatus.STOPPING)
_ENDED = (WorkerStatus.STOPPED, WorkerStatus.FAILED)
_USED = ("cpuPercent", "memoryBytes", "diskBytes")


def worker_counts(workers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How many do what."""
    statuses = [worker["status"] for worker in workers]
    return {
        "activeCount": sum(status not in _ENDED for status in statuses),
        "idleCount": statuses.count(WorkerStatus.IDLE),
        "busyCount": statuses.count(WorkerStatus.BUSY),
        "transitioningCount": sum(status in _MOVING for status in statuses),
    }


def used_by(workers: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What all of them use together."""
    return {key: round(sum(worker["resources"][key] for worker in workers), 1) for key in _USED}
