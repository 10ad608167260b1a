"""What happened, as observers hear it. A task's events are its moves, so none can be missed."""

from typing import Any

import msgspec

from acode.model.state import Status
from acode.model.task import Move


class Event(msgspec.Struct, frozen=True):
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
