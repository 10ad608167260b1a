"""The ends of attempts, set-based: all that are reported together are written together.

A result that is an exception is raised to the one who asked; the others are not touched.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from acode.errors import AcodeError, LeaseLost
from acode.model.state import Status
from acode.model.task import Lease, Task
from acode.model.verdict import Fail, Report, RetryAt
from acode.store import transitions
from acode.store.base import Claim
from acode.store.sqlite.claims import claim
from acode.store.sqlite.rows import LEVEL, SEQ, TOKEN, Row, dead_letter_row, task_from, text
from acode.store.sqlite.steps import steps_of
from acode.store.sqlite.transaction import Transaction


class Finish(NamedTuple):
    """One call of `finish`."""

    report: Report
    then: Claim | None


def finish(tx: Transaction, finishes: Sequence[Finish]) -> list[list[Lease] | AcodeError]:
    """Write the ends of attempts whose token is still the current one, then claim anew."""
    reported = {report.task_id for report, _ in finishes}
    running = {row[0]: row for row in tx.among("running", reported)}
    results: list[list[Lease] | AcodeError] = []
    ended: list[_Ended] = []
    for report, _ in finishes:
        row = running.get(report.task_id)
        if row is None or row[TOKEN] != report.token:
            results.append(LeaseLost(f"the attempt of task {report.task_id} is not current"))
            continue
        del running[report.task_id]
        task = task_from(row)
        ended.append(_Ended(row, report, task, *transitions.finished(task, report)))
        results.append([])
    _write_ends(tx, ended)
    _claim_next(tx, finishes, results)
    return results


def _claim_next(
    tx: Transaction, finishes: Sequence[Finish], results: list[list[Lease] | AcodeError]
) -> None:
    """Those whose report was accepted get what they asked for next."""
    claims = {
        place: one.then
        for place, (one, result) in enumerate(zip(finishes, results, strict=True))
        if one.then is not None and not isinstance(result, AcodeError)
    }
    for place, leases in zip(claims, claim(tx, list(claims.values())), strict=True):
        results[place] = leases


class _Ended(NamedTuple):
    row: Row
    report: Report
    before: Task
    task: Task
    reason: str


def _write_ends(tx: Transaction, ended: list[_Ended]) -> None:
    tx.put("settle", [settled_row(one.row[SEQ], one.task) for one in ended])
    tx.put("insert_attempts", [_attempt_row(one) for one in ended])
    tx.put("insert_history", [_history_row(one, tx.now) for one in ended])
    for (status, level), n in Counter((e.task.status, e.row[LEVEL]) for e in ended).items():
        tx.count("running", status.value, level, n)
    for one in ended:
        if one.task.status is Status.FAILED:
            _bury(tx, one)
    completed = [one for one in ended if one.task.status is Status.COMPLETED]
    if completed:
        tx.put("forget_steps", [(one.task.id,) for one in completed])
        _unblock(tx, [one.row[SEQ] for one in completed])


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
    )


def _attempt_row(one: _Ended) -> Row:
    before, report = one.before, one.report
    failure = report.verdict.failure if isinstance(report.verdict, Fail | RetryAt) else None
    return (
        one.row[SEQ],
        before.last_attempt,
        before.worker_id,
        before.started_at,
        report.ended_at,
        text(report.ending),
        text(failure),
        text(report.usage),
    )


def _history_row(one: _Ended, now: int) -> Row:
    return (one.row[SEQ], "running", one.task.status.value, now, one.report.actor, one.reason)


def _bury(tx: Transaction, one: _Ended) -> None:
    first = tx.value("first_failure", seq=one.row[SEQ]) or one.report.ended_at
    steps = steps_of(tx, [one.task.id]).get(one.task.id, {})
    letter = transitions.dead_letter(one.task, first, steps)
    tx.run("insert_dead_letter", **dead_letter_row(letter, tx.now))
    tx.put("forget_steps", [(one.task.id,)])


def _unblock(tx: Transaction, completed: list[int]) -> None:
    # Two sets of completed tasks may free the same dependent.
    free = {row[0] for row in tx.among("dependents_now_free", completed)}
    if not free:
        return
    moved = []
    for row in tx.among("some", free):
        step = transitions.unblocked(task_from(row), tx.now)
        tx.count("blocked", "pending", step.task.spec.priority.level)
        moved.append((row[SEQ], step))
    tx.put("settle", [settled_row(seq, step.task) for seq, step in moved])
    tx.put(
        "insert_history",
        [(seq, "blocked", "pending", tx.now, "store", step.reason) for seq, step in moved],
    )
