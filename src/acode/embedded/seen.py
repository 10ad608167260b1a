"""A task as a program sees it: the fields of `acode task show`, in Python."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from acode.embedded.request import ARGUMENTS, PATH
from acode.model.failure import Failure
from acode.model.priority import Priority
from acode.model.state import Status
from acode.model.task import Attempt, DeadLetter, Move, Record, Result

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SeenTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task and everything that happened to it."""

    id: str
    title: str | None
    type: str
    """The name of the handler; the type of a task that is not Python."""
    status: Status
    priority: Priority
    workstream_id: str | None
    args: tuple[Any, ...]
    timeout_seconds: float | None
    """`None` leaves it to the pool."""
    retry_limit: int | None
    """`None`: only transient failures are retried."""
    attempt_count: int
    created_at: datetime
    ready_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    duration_ms: int | None
    worker_id: str | None
    result: Any
    error: Failure | None
    key: str | None
    metadata: dict[str, Any]
    history: tuple[Move, ...]
    attempts: tuple[Attempt, ...]


def seen(record: Record) -> SeenTask:
    """A task for others to look at."""
    task, spec, result = record.task, record.task.spec, record.task.result or Result()
    hidden = (ARGUMENTS, PATH)
    return SeenTask(
        id=task.id,
        title=spec.title,
        type=spec.kind,
        status=task.status,
        priority=spec.priority,
        workstream_id=spec.workstream_id,
        args=tuple(spec.metadata.get(ARGUMENTS, spec.args)),
        timeout_seconds=spec.timeout_seconds,
        retry_limit=spec.retry_limit,
        attempt_count=task.attempt_count,
        created_at=_moment(task.created_at),
        ready_at=_moment(task.ready_at),
        started_at=None if task.started_at is None else _moment(task.started_at),
        completed_at=None if task.completed_at is None else _moment(task.completed_at),
        duration_ms=_span(task.started_at, task.completed_at),
        worker_id=task.worker_id,
        result=result.value,
        error=task.error,
        key=spec.key,
        metadata={name: value for name, value in spec.metadata.items() if name not in hidden},
        history=record.history,
        attempts=record.attempts,
    )


def _moment(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)


def _span(begin: int | None, end: int | None) -> int | None:
    return None if begin is None or end is None else end - begin


__all__ = ["DeadLetter", "SeenTask", "seen"]
