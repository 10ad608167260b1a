"""The writes that a user asks for, and the care of old rows. Rare, so one at a time."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from acode.errors import AcodeError, LeaseLost, TaskNotFound
from acode.model.state import FINISHED, Status
from acode.model.task import Push, Record, Task
from acode.store import transitions
from acode.store.base import Tidied
from acode.store.sql.reads import record
from acode.store.sql.rows import (
    SEQ,
    TOKEN,
    Row,
    dead_letter_from,
    record_text,
    settled_row,
    task_from,
    text,
)
from acode.store.sql.transaction import Transaction

R = TypeVar("R")
T = TypeVar("T")

ARCHIVE_CHUNK = 500
"""Tasks archived in one transaction, so that others get their turn."""


def each(one: Callable[[Transaction, R], T]) -> Callable[[Transaction, Sequence[R]], list[Any]]:
    """Run a write for every request; a refusal concerns only the one who asked.

    `one` has to refuse before it writes anything.
    """

    def run(tx: Transaction, requests: Sequence[R]) -> list[Any]:
        tx.hold([one.task_id for one in requests if isinstance(one, Wish | StepValue)])
        return [_outcome(one, tx, request) for request in requests]

    return run


def _outcome(one: Callable[[Transaction, R], T], tx: Transaction, request: R) -> T | AcodeError:
    try:
        return one(tx, request)
    except AcodeError as refusal:
        return refusal


class Wish(NamedTuple):
    """What a user wants of one task."""

    task_id: str
    actor: str
    flag: bool = False
    """force, for a cancel; reset the attempts, for a retry."""


class StepValue(NamedTuple):
    """One call of `save_step`."""

    task_id: str
    token: str
    step: str
    value: Any


class Pushed(NamedTuple):
    """One call of `pushed`."""

    task_id: str
    number: int
    push: Push


def cancel(tx: Transaction, wish: Wish) -> Task:
    """Cancel a waiting task; note the wish for a running one."""
    task, seq = _task(tx, wish.task_id)
    step = transitions.cancelled(task, force=wish.flag, now=tx.now)
    if step.task.status is Status.RUNNING:
        tx.run("wish_end", seq=seq, cancel=step.task.cancel and step.task.cancel.value)
        return step.task
    return _move(tx, seq, task, step, wish.actor)


def retry(tx: Transaction, wish: Wish) -> Task:
    """Queue a failed or cancelled task again, with the checkpoint its dead letter kept."""
    task, seq = _task(tx, wish.task_id)
    step = transitions.retried(task, reset_attempts=wish.flag, now=tx.now)
    waiting = _move(tx, seq, task, step, wish.actor)
    for row in tx.all("dead_letter_of", id=task.id):
        for name, value in dead_letter_from(row).checkpoint.items():
            kept = text(value) or "null"
            tx.run("save_step", task_id=task.id, step=name, value=kept, now=tx.now)
    tx.run("forget_dead_letter", id=task.id)
    if tx.value("unfinished_needs", seq=seq):
        return _move(tx, seq, waiting, transitions.blocked(waiting), wish.actor)
    return waiting


def drop(tx: Transaction, wish: Wish) -> Task:
    """Give a dead letter up."""
    task, seq = _task(tx, wish.task_id)
    step = transitions.dropped(task, tx.now)
    tx.run("forget_dead_letter", id=task.id)
    return _move(tx, seq, task, step, wish.actor)


def _task(tx: Transaction, task_id: str) -> tuple[Task, int]:
    rows: list[Row] = tx.all("one_to_write", id=task_id)
    if not rows:
        raise TaskNotFound(f"no task has the id {task_id}")
    return task_from(rows[0]), rows[0][SEQ]


def _move(tx: Transaction, seq: int, task: Task, step: transitions.Step, actor: str) -> Task:
    transitions.guard(task.status, step.task.status)
    tx.count(task.status.value, step.task.status.value, task.spec.priority.level)
    tx.put("settle", [settled_row(seq, step.task)])
    tx.note_move(seq, task.status.value, step.task.status.value, actor, step.reason)
    return step.task


def pause(tx: Transaction, wish: tuple[bool, str]) -> bool:
    """Set or remove the flag that holds every claim."""
    paused, actor = wish
    if paused:
        return tx.run("set_paused", at=tx.now, actor=actor) > 0
    return tx.run("unset_paused") > 0


def save_step(tx: Transaction, wish: StepValue) -> None:
    """Keep a step's value, if the attempt is still the current one."""
    rows = tx.all("one_to_write", id=wish.task_id)
    if not rows or rows[0][TOKEN] != wish.token:
        raise LeaseLost(f"the attempt of task {wish.task_id} is not current")
    value = text(wish.value) or "null"
    tx.run("save_step", task_id=wish.task_id, step=wish.step, value=value, now=tx.now)


def pushed(tx: Transaction, done: Pushed) -> None:
    """Note what became of the branch that the task came to."""
    task, seq = _task(tx, done.task_id)
    if (now := transitions.pushed(task, done.number, done.push)) is not None:
        tx.put("settle", [settled_row(seq, now)])


def archive(tx: Transaction, finished_before: int) -> Tidied:
    """Put one chunk of old finished tasks away."""
    tx.write_moves()
    rows = tx.all("to_archive", before=finished_before, limit=ARCHIVE_CHUNK)
    records = [record(tx, row[0]) for row in rows]
    for one in records:
        _put_away(tx, one)
    tx.put("delete_tasks", [(one.task.id,) for one in records])
    return Tidied(archived=len(records))


def _put_away(tx: Transaction, one: Record) -> None:
    if one.task.status not in FINISHED:
        raise ValueError(f"task {one.task.id} is not finished")
    tx.count(one.task.status.value, None, one.task.spec.priority.level)
    tx.run(
        "insert_archive",
        id=one.task.id,
        status=one.task.status.value,
        completed_at=one.task.completed_at,
        record=record_text(one),
    )


def forget_orphaned_steps(tx: Transaction, saved_before: int) -> Tidied:
    """Remove old checkpoints of tasks that are finished."""
    return Tidied(checkpoints=tx.run("forget_orphaned_steps", before=saved_before))
