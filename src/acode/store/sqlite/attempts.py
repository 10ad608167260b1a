"""Claim and finish, set-based: each takes every waiting request of its kind at once.

A result that is an exception is raised to the one who asked; the others are not touched.
"""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from acode.errors import AcodeError, LeaseLost
from acode.model.state import Status
from acode.model.task import Lease, Task
from acode.model.verdict import Fail, Report, RetryAt
from acode.store import transitions
from acode.store.base import Claim
from acode.store.sqlite.rows import dead_letter_row, task_from, text
from acode.store.sqlite.steps import steps_of
from acode.store.sqlite.transaction import Transaction


class Finish(NamedTuple):
    """One call of `finish`."""

    report: Report
    then: Claim | None


def claim(tx: Transaction, claims: Sequence[Claim]) -> list[list[Lease]]:
    """Lease ready tasks for every claim in turn."""
    return [_claim(tx, one) for one in claims]


def _claim(tx: Transaction, claim: Claim) -> list[Lease]:
    if claim.limit <= 0 or tx.value("is_paused"):
        return []
    rows = tx.all(
        "candidates",
        now=tx.now,
        limit=claim.limit,
        ageing=tx.ageing_ms,
        held=text([tuple(circuit) for circuit in claim.held]),
    )
    if not rows:
        return []
    tasks = [task_from(row) for row in rows]
    given = zip(rows, tasks, claim.assign(tasks), strict=True)
    leases = {row[-1]: _lease(tx, task, worker) for row, task, worker in given if worker}
    leased = [
        (seq, lease.number, lease.worker_id, tx.now, lease.token) for seq, lease in leases.items()
    ]
    tx.put("lease", leased)
    tx.put("insert_attempts", [row[:4] for row in leased])
    tx.put(
        "insert_history",
        [(r[0], "pending", "running", tx.now, f"worker-{r[2]}", f"attempt {r[1]}") for r in leased],
    )
    return _with_steps(tx, list(leases.values()))


def _lease(tx: Transaction, task: Task, worker_id: str) -> Lease:
    running = transitions.claimed(task, worker_id, tx.now)
    tx.count("pending", "running", task.spec.priority.level)
    return Lease(
        task=running, number=running.last_attempt, token=os.urandom(16).hex(), worker_id=worker_id
    )


def _with_steps(tx: Transaction, leases: list[Lease]) -> list[Lease]:
    again = [lease.task.id for lease in leases if lease.number > 1]
    if not again:
        return leases
    steps = steps_of(tx, again)
    return [
        Lease(
            task=lease.task,
            number=lease.number,
            token=lease.token,
            worker_id=lease.worker_id,
            steps=steps.get(lease.task.id, {}),
        )
        for lease in leases
    ]


def finish(tx: Transaction, finishes: Sequence[Finish]) -> list[list[Lease] | AcodeError]:
    """Write the ends of attempts whose token is still the current one, then claim anew."""
    reported = {one.report.task_id for one in finishes}
    running = {row[0]: row for row in tx.among("running", reported)}
    results: list[list[Lease] | AcodeError] = []
    ended: list[_Ended] = []
    for one in finishes:
        row = running.get(one.report.task_id)
        if row is None or row[-2] != one.report.token:
            results.append(LeaseLost(f"the attempt of task {one.report.task_id} is not current"))
            continue
        del running[one.report.task_id]
        ended.append(_end(tx, task_from(row), row[-1], one.report))
        results.append([])
    _write_ends(tx, ended)
    for place, one in enumerate(finishes):
        if one.then is not None and not isinstance(results[place], AcodeError):
            results[place] = _claim(tx, one.then)
    return results


class _Ended(NamedTuple):
    seq: int
    task: Task
    report: Report
    reason: str


def _end(tx: Transaction, task: Task, seq: int, report: Report) -> _Ended:
    after, reason = transitions.finished(task, report)
    tx.count("running", after.status.value, task.spec.priority.level)
    return _Ended(seq, after, report, reason)


def _write_ends(tx: Transaction, ended: list[_Ended]) -> None:
    tx.put("settle", [settled_row(one.seq, one.task) for one in ended])
    tx.put("end_attempts", [_attempt_row(one) for one in ended])
    tx.put(
        "insert_history",
        [
            (one.seq, "running", one.task.status.value, tx.now, one.report.actor, one.reason)
            for one in ended
        ],
    )
    for one in ended:
        if one.task.status is Status.FAILED:
            _bury(tx, one)
    completed = [one for one in ended if one.task.status is Status.COMPLETED]
    if completed:
        tx.put("forget_steps", [(one.task.id,) for one in completed])
        _unblock(tx, [one.seq for one in completed])


def settled_row(seq: int, task: Task) -> tuple[Any, ...]:
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


def _attempt_row(one: _Ended) -> tuple[Any, ...]:
    verdict = one.report.verdict
    failure = verdict.failure if isinstance(verdict, Fail | RetryAt) else None
    return (
        one.seq,
        one.task.last_attempt,
        one.report.ended_at,
        text(one.report.ending),
        text(failure),
        text(one.report.usage),
    )


def _bury(tx: Transaction, one: _Ended) -> None:
    first = tx.value("first_failure", seq=one.seq) or one.report.ended_at
    steps = steps_of(tx, [one.task.id]).get(one.task.id, {})
    letter = transitions.dead_letter(one.task, first, steps)
    tx.run("insert_dead_letter", **dead_letter_row(letter, tx.now))
    tx.put("forget_steps", [(one.task.id,)])


def _unblock(tx: Transaction, completed: list[int]) -> None:
    free = [row[0] for row in tx.among("dependents_now_free", completed)]
    if not free:
        return
    moved = []
    for row in tx.among("some", free):
        step = transitions.unblocked(task_from(row), tx.now)
        tx.count("blocked", "pending", step.task.spec.priority.level)
        moved.append((row[-1], step))
    tx.put("settle", [settled_row(seq, step.task) for seq, step in moved])
    tx.put(
        "insert_history",
        [(seq, "blocked", "pending", tx.now, "store", step.reason) for seq, step in moved],
    )
