"""Attempts that completed their task: nearly all of them, so they take one guarded statement."""

from collections import Counter
from collections.abc import Sequence

from acode.model.ending import Released
from acode.model.verdict import Complete, Report
from acode.store import transitions
from acode.store.sqlite.rows import LEVEL, SEQ, Row, settled_row, task_from, text
from acode.store.sqlite.transaction import Transaction

Accepted = set[tuple[str, str]]
"""Tasks and tokens of the reports that were written."""


def is_plain(report: Report) -> bool:
    """Whether the task completes, whatever its row says: no wish and no count changes that."""
    return isinstance(report.verdict, Complete) and not isinstance(report.ending, Released)


def complete(tx: Transaction, reports: Sequence[Report]) -> Accepted:
    """Write plain reports, at most one for each task."""
    given = [(r.task_id, r.token, r.ended_at, text(r.verdict.result)) for r in reports]
    rows = {row[0]: row for row in tx.put("complete", given)}
    done = [(rows[report.task_id], report) for report in reports if report.task_id in rows]
    tx.put("insert_attempts", [_attempt_row(*one) for one in done])
    tx.put(
        "insert_history",
        [(row[1], "running", "completed", tx.now, r.actor, "completed") for row, r in done],
    )
    for level, n in Counter([row[-1] for row in rows.values()]).items():
        tx.count("running", "completed", level, n)
    follow_up(tx, {row[0]: row[1] for row in rows.values()})
    return {(report.task_id, report.token) for _, report in done}


def _attempt_row(row: Row, report: Report) -> Row:
    _, seq, number, worker_id, started_at, _ = row
    ending, usage = text(report.ending), text(report.usage)
    return (seq, number, worker_id, started_at, report.ended_at, ending, None, usage)


def follow_up(tx: Transaction, completed: dict[str, int]) -> None:
    """What completed tasks, by id and sequence number, leave to do: forget steps, free others."""
    tx.put("forget_steps", [(task_id,) for task_id in completed])
    # Two sets of completed tasks may free the same dependent.
    free = sorted({row[0] for row in tx.among("dependents_now_free", completed.values())})
    moved = []
    for row in tx.among("some", free):
        moved.append((row[SEQ], transitions.unblocked(task_from(row), tx.now)))
        tx.count("blocked", "pending", row[LEVEL])
    tx.put("settle", [settled_row(seq, step.task) for seq, step in moved])
    tx.put(
        "insert_history",
        [(seq, "blocked", "pending", tx.now, "store", step.reason) for seq, step in moved],
    )
