"""Rows to structs and back."""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import msgspec

from acode.clock import from_iso, iso
from acode.errors import StoreDamaged
from acode.model.ending import Ending, Usage
from acode.model.failure import Failure
from acode.model.state import Status
from acode.model.task import (
    Attempt,
    CancelWish,
    DeadLetter,
    Move,
    Record,
    Result,
    Task,
    TaskSpec,
)

P = ParamSpec("P")
T = TypeVar("T")


def sensible(parse: Callable[P, T]) -> Callable[P, T]:
    """Say that the store is damaged where its rows make no sense."""

    @wraps(parse)
    def parsed(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return parse(*args, **kwargs)
        except (LookupError, TypeError, ValueError) as error:
            raise StoreDamaged(f"a row of the store makes no sense ({error})") from error

    return parsed


_encode = msgspec.json.Encoder().encode
_spec = msgspec.json.Decoder(TaskSpec).decode
_result = msgspec.json.Decoder(Result).decode
_failure = msgspec.json.Decoder(Failure).decode
_ending = msgspec.json.Decoder(Ending).decode
_usage = msgspec.json.Decoder(Usage).decode
_record = msgspec.json.Decoder(Record).decode
_value = msgspec.json.Decoder().decode
STATUS = {status.value: status for status in Status}

Row = tuple[Any, ...]

LEVEL, READY, TOKEN, SEQ = 13, -3, -2, -1
"""Places in the rows of queries that select the columns, the token and the sequence number. A row
of `candidates` also says how many ready tasks could be seen, if not all could."""


def text(value: Any) -> str | None:
    """JSON for a column; NULL for nothing."""
    return None if value is None else _encode(value).decode()


@sensible
def task_from(row: Row) -> Task:
    """A task from the columns of the query `columns`."""
    return _task_from(row)


@sensible
def tasks_from(rows: Iterable[Row]) -> list[Task]:
    """The same for many."""
    return [_task_from(row) for row in rows]


def _task_from(row: Row) -> Task:
    return Task(
        id=row[0],
        spec=_spec(row[1]),
        status=STATUS[row[2]],
        created_at=row[3],
        ready_at=row[4],
        attempt_count=row[5],
        last_attempt=row[6],
        started_at=row[7],
        completed_at=row[8],
        worker_id=row[9],
        result=row[10] and _result(row[10]),
        error=row[11] and _failure(row[11]),
        cancel=row[12] and CancelWish(row[12]),
        host_id=row[14],
    )


def settled_row(seq: int, task: Task) -> Row:
    """A row of the query `settle`."""
    return (
        seq,
        task.status.value,
        task.attempt_count,
        task.ready_at,
        task.started_at,
        task.completed_at,
        task.worker_id,
        text(task.result),
        text(task.error),
        task.cancel and task.cancel.value,
        task.host_id,
    )


@sensible
def attempt_from(row: Row) -> Attempt:
    """An attempt from the columns of `attempts_of`."""
    return Attempt(
        number=row[0],
        worker_id=row[1],
        started_at=row[2],
        ended_at=row[3],
        ending=row[4] and _ending(row[4]),
        error=row[5] and _failure(row[5]),
        usage=row[6] and _usage(row[6]),
        host_id=row[7],
    )


def open_attempt(task: Task) -> list[Attempt]:
    """The attempt that a running task is at; its row holds all there is to know of it."""
    if task.status is not Status.RUNNING:
        return []
    worker_id, started_at = task.worker_id or "", task.started_at or 0
    return [
        Attempt(
            number=task.last_attempt,
            worker_id=worker_id,
            host_id=task.host_id,
            started_at=started_at,
        )
    ]


@sensible
def move_from(row: Row, task_id: str) -> Move:
    """A move from the columns of `history_of`."""
    return Move(
        seq=row[0],
        task_id=task_id,
        was=row[1] and STATUS[row[1]],
        became=STATUS[row[2]],
        at=row[3],
        actor=row[4],
        reason=row[5],
    )


@sensible
def dead_letter_from(row: Row) -> DeadLetter:
    """A dead letter from the columns of `dead_letters`."""
    return DeadLetter(
        task_id=row[0],
        task_type=row[1],
        document_id=row[2],
        failure_reason=row[3],
        attempt_count=row[4],
        first_failure=from_iso(row[5]),
        last_failure=from_iso(row[6]),
        error_details=_failure(row[7]),
        checkpoint=_value(row[8]),
    )


def dead_letter_row(letter: DeadLetter, now: int) -> dict[str, Any]:
    """The parameters of `insert_dead_letter`."""
    return {
        "task_id": letter.task_id,
        "task_type": letter.task_type,
        "document_id": letter.document_id,
        "failure_reason": letter.failure_reason,
        "attempt_count": letter.attempt_count,
        "first_failure": iso(letter.first_failure),
        "last_failure": iso(letter.last_failure),
        "error_details": text(letter.error_details),
        "checkpoint": text(letter.checkpoint),
        "created_at": iso(now),
    }


def record_text(record: Record) -> str:
    """A record for the archive."""
    return _encode(record).decode()


@sensible
def record_from(document: str) -> Record:
    """A record out of the archive."""
    return _record(document)


@sensible
def step_value_from(document: str) -> Any:
    """What a step left."""
    return _value(document)
