"""Attempts that completed their task: nearly all of them, so they take one guarded statement."""

from collections.abc import Sequence

from acode.model.ending import Released
from acode.model.verdict import Complete, Report
from acode.store import transitions
from acode.store.sql.rows import LEVEL, SEQ, Row, settled_row, task_from, text
from acode.store.sql.transaction import Transaction, tally


def is_plain(report: Report) -> bool:
    """Whether the task completes, whatever its row says: no wish and no count changes that."""
    return isinstance(report.verdict, Complete) and not isinstance(report.ending, Released)


def complete(tx: Transaction, reports: Sequence[Report]) -> set[str]:
    """Write plain reports, at most one for each task; the ids of the tasks that they completed."""
    if not reports:
        return set()
    rows = tx.complete([_given(report) for report in reports])
    for level, n in tally([row[2] for row in rows]).items():
        tx.count("running", "completed", level, n)
    free_dependents(tx, [row[1] for row in rows if row[3]])
    return {row[0] for row in rows}


def _given(r: Report) -> Row:
    result, ending, usage = text(r.verdict.result), text(r.ending), text(r.usage)
    return (r.task_id, r.token, r.ended_at, result, ending, usage, r.actor)


def forget_steps(tx: Transaction, task_ids: Sequence[str]) -> None:
    """A task that is through needs its checkpoint no more."""
    tx.put("forget_steps", [(task_id,) for task_id in task_ids])


def free_dependents(tx: Transaction, completed: Sequence[int]) -> None:
    """Free the tasks that waited for nothing but these, by sequence number."""
    if not completed or not tx.hold_dependents(completed):
        return
    # Two sets of completed tasks may free the same dependent.
    free = sorted({row[0] for row in tx.among("dependents_now_free", completed)})
    moved = []
    for row in tx.among("some", free):
        step = transitions.unblocked(task_from(row), tx.now)
        moved.append(settled_row(row[SEQ], step.task))
        tx.note_move(row[SEQ], "blocked", "pending", "store", step.reason)
        tx.count("blocked", "pending", row[LEVEL])
    tx.put("settle", moved)
