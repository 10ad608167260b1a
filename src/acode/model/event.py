"""What happened, as observers hear it. A task's events are its moves, so none can be missed."""

from typing import Any

import msgspec

from acode.model.failure import Failure
from acode.model.limits import Over, OverLimitAction
from acode.model.state import Status, WorkerStatus
from acode.model.task import Move, Result


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event as it goes over the wire."""

    type: str
    payload: dict[str, Any]
    timestamp: int
    seq: int


_TYPES = {
    (None, Status.PENDING): "task.added",
    (None, Status.BLOCKED): "task.added",
    (Status.PENDING, Status.RUNNING): "task.assigned",
    (Status.PENDING, Status.BLOCKED): "task.blocked",
    (Status.PENDING, Status.CANCELLED): "task.cancelled",
    (Status.BLOCKED, Status.PENDING): "task.unblocked",
    (Status.BLOCKED, Status.CANCELLED): "task.cancelled",
    (Status.RUNNING, Status.COMPLETED): "task.completed",
    (Status.RUNNING, Status.FAILED): "task.failed",
    (Status.RUNNING, Status.CANCELLED): "task.cancelled",
    (Status.RUNNING, Status.PENDING): "task.requeued",
    (Status.FAILED, Status.PENDING): "task.retried",
    (Status.FAILED, Status.CANCELLED): "task.cancelled",
    (Status.CANCELLED, Status.PENDING): "task.retried",
}
"""One event type for every legal move."""


def event_of(move: Move) -> Event:
    """The event that a move is."""
    return Event(
        type=_TYPES[move.was, move.became],
        payload={
            "taskId": move.task_id,
            "status": move.became.value,
            "actor": move.actor,
            "reason": move.reason,
        },
        timestamp=move.at,
        seq=move.seq,
    )


class WorkerStarted(msgspec.Struct, frozen=True, gc=False, tag="worker.started"):
    """A worker is ready for its first task."""

    worker_id: str
    pid: int
    adopted: bool = False


class WorkerStopped(msgspec.Struct, frozen=True, gc=False, tag="worker.stopped"):
    """A worker has ended as it was told."""

    worker_id: str


class WorkerCrashed(msgspec.Struct, frozen=True, gc=False, tag="worker.crashed"):
    """A worker has ended although nobody wanted it."""

    worker_id: str
    reason: str
    restart_in_ms: int | None


class WorkerFailed(msgspec.Struct, frozen=True, gc=False, tag="worker.failed"):
    """A worker is given up for good and replaced."""

    worker_id: str
    reason: str


class WorkerStalled(msgspec.Struct, frozen=True, gc=False, tag="worker.stalled"):
    """A worker has given no sign of life for too long."""

    worker_id: str
    task_id: str | None
    silent_ms: int


class WorkerStatusChanged(msgspec.Struct, frozen=True, gc=False, tag="worker.status"):
    """A worker went from one status to another."""

    worker_id: str
    status: WorkerStatus
    task_id: str | None = None


class TaskAssigned(msgspec.Struct, frozen=True, gc=False, tag="task.assigned"):
    """An attempt was given to a worker."""

    task_id: str
    worker_id: str
    number: int
    waited_ms: int


class TaskEnded(msgspec.Struct, frozen=True, gc=False, tag="task.ended"):
    """An attempt has ended and its verdict is on disk."""

    task_id: str
    worker_id: str
    number: int
    status: Status
    reason: str
    kind: str = ""
    took_ms: int = 0
    counts: bool = True
    """A released attempt does not: it is as if it had not been."""
    failure: Failure | None = None
    result: Result | None = None


class TaskRefused(msgspec.Struct, frozen=True, gc=False, tag="task.refused"):
    """A late result was not used: another attempt has taken over."""

    task_id: str
    worker_id: str


class LimitExceeded(msgspec.Struct, frozen=True, gc=False, tag="task.overLimit"):
    """An attempt has gone over one of its limits; told once for each."""

    task_id: str
    worker_id: str
    what: str
    limit: float
    used: float
    action: OverLimitAction

    @classmethod
    def of(
        cls, task_id: str, worker_id: str, over: Over, action: OverLimitAction
    ) -> "LimitExceeded":
        """The event of what was found."""
        return cls(task_id, worker_id, over.what, over.limit, over.used, action)


class BackpressureChanged(msgspec.Struct, frozen=True, gc=False, tag="pool.backpressure"):
    """The pool stops beginning tasks for another reason, or for none any more."""

    reason: str | None


class PoolScaled(msgspec.Struct, frozen=True, gc=False, tag="pool.scaled"):
    """The pool was told another size."""

    was: int
    now: int
    reason: str


class PoolNote(msgspec.Struct, frozen=True, gc=False, tag="pool.note"):
    """Something else that a person may want to read later."""

    level: str
    message: str


PoolEvent = (
    WorkerStarted
    | WorkerStopped
    | WorkerCrashed
    | WorkerFailed
    | WorkerStalled
    | WorkerStatusChanged
    | TaskAssigned
    | TaskEnded
    | TaskRefused
    | LimitExceeded
    | BackpressureChanged
    | PoolScaled
    | PoolNote
)


TOLD: tuple[type[PoolEvent], ...] = (
    WorkerStarted,
    WorkerStopped,
    WorkerCrashed,
    WorkerFailed,
    WorkerStatusChanged,
    LimitExceeded,
    BackpressureChanged,
    PoolScaled,
    PoolNote,
)
"""What no move of the store says already."""


def told(event: PoolEvent) -> tuple[str, dict[str, Any]] | None:
    """Type and payload of an event for the feed; None where a move of the store says it already."""
    if not isinstance(event, TOLD):
        return None
    type_ = str(event.__struct_config__.tag)
    match event:
        case PoolScaled(was, now, reason):
            direction = "up" if now > was else "down"
            words = {"was": was, "now": now, "reason": reason}
            return type_, {"direction": direction, "count": abs(now - was), **words}
        case WorkerStatusChanged(worker_id, status, task_id):
            task = {"task": task_id} if task_id else {}
            return type_, {"workerId": worker_id, "status": status.value, **task}
        case _:
            names = {name: _camel(name) for name in event.__struct_fields__}
            return type_, {wire: getattr(event, name) for name, wire in names.items()}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)
