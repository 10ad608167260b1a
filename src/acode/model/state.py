"""The states of a task and of a worker, and the moves that are legal between them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Status(StrEnum):
    """Where a task stands."""

    PENDING = "pending"
    BLOCKED = "blocked"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


MOVES: Final[Mapping[Status, frozenset[Status]]] = {
    Status.PENDING: frozenset({Status.RUNNING, Status.BLOCKED, Status.CANCELLED}),
    Status.BLOCKED: frozenset({Status.PENDING, Status.CANCELLED}),
    Status.RUNNING: frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED, Status.PENDING}),
    Status.COMPLETED: frozenset(),
    Status.FAILED: frozenset({Status.PENDING, Status.CANCELLED}),
    Status.CANCELLED: frozenset({Status.PENDING}),
}
"""Cancelled → pending happens only when a user retries the task."""

FINISHED: Final = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})
"""Nothing more happens to such a task unless a user asks for it."""


class WorkerStatus(StrEnum):
    """Where a worker stands."""

    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    ERROR = "error"
    CRASHED = "crashed"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


WORKER_MOVES: Final[Mapping[WorkerStatus, frozenset[WorkerStatus]]] = {
    WorkerStatus.STARTING: frozenset(
        {WorkerStatus.IDLE, WorkerStatus.CRASHED, WorkerStatus.STOPPING, WorkerStatus.FAILED}
    ),
    WorkerStatus.IDLE: frozenset({WorkerStatus.BUSY, WorkerStatus.CRASHED, WorkerStatus.STOPPING}),
    WorkerStatus.BUSY: frozenset(
        {WorkerStatus.IDLE, WorkerStatus.ERROR, WorkerStatus.CRASHED, WorkerStatus.STOPPING}
    ),
    WorkerStatus.ERROR: frozenset({WorkerStatus.IDLE, WorkerStatus.CRASHED, WorkerStatus.STOPPING}),
    WorkerStatus.CRASHED: frozenset(
        {WorkerStatus.STARTING, WorkerStatus.STOPPED, WorkerStatus.FAILED}
    ),
    WorkerStatus.STOPPING: frozenset({WorkerStatus.STOPPED, WorkerStatus.CRASHED}),
    WorkerStatus.STOPPED: frozenset(),
    WorkerStatus.FAILED: frozenset(),
}
