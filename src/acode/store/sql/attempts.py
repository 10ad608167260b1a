"""The ends of attempts, set-based: all that are reported together are written together.

A result that is an exception is raised to the one who asked; the others are not touched.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from acode.errors import AcodeError, LeaseLost
from acode.model.state import Status
from acode.model.task import Lease, Task
from acode.model.verdict import Report
from acode.store import transitions
from acode.store.base import Claim
from acode.store.sql.claims import claim, foresee
from acode.store.sql.completions import (
    complete,
    forget_steps,
    free_dependents,
    is_plain,
)
from acode.store.sql.rows import (
    LEVEL,
    SEQ,
    TOKEN,
    Row,
    dead_letter_row,
    settled_row,
    task_from,
    text,
)
from acode.store.sql.steps import steps_of
from acode.store.sql.transaction import Transaction


class Finish(NamedTuple):
    """One call of `finish`."""

    report: Report
    then: Claim | None


Accepted = set[tuple[str, str]]
"""Tasks and tokens of the reports that were written."""


def finish(tx: Transaction, finishes: Sequence[Finish]) -> list[list[Lease] | AcodeError]:
    """Write the ends of attempts whose token is still the current one, then claim anew."""
    reports = [report for report, _ in finishes]
    plain, others = _sorted_out(reports)
    if tx.foresees and not others:
        foresee(tx, [then for _, then in finishes if then is not None])
    completed = complete(tx, plain)
    settled = _settle(tx, others)
    results = [
        [] if report.task_id in completed else _result(report, settled) for report in reports
    ]
    _claim_next(tx, finishes, results)
    return results


def _sorted_out(reports: list[Report]) -> tuple[list[Report], list[Report]]:
    """Those that complete a task which no other one speaks of, and the rest."""
    plain = [one for one in reports if is_plain(one)]
    alone = len({one.task_id for one in reports}) == len(reports)
    if alone and len(plain) == len(reports):
        return plain, []
    times = Counter([one.task_id for one in reports])
    plain = [one for one in plain if times[one.task_id] == 1]
    return plain, [one for one in reports if times[one.task_id] > 1 or not is_plain(one)]


def _result(report: Report, accepted: Accepted) -> list[Lease] | AcodeError:
    key = (report.task_id, report.token)
    if key not in accepted:
        return LeaseLost(f"the attempt of task {report.task_id} is not current")
    accepted.remove(key)  # of two reports of the same attempt the first one counts
    return []


def _claim_next(
    tx: Transaction, finishes: Sequence[Finish], results: list[list[Lease] | AcodeError]
) -> None:
    """Those whose report was accepted get what they asked for next."""
    places, claims = [], []
    for place, (_, then) in enumerate(finishes):
        if then is not None and not isinstance(results[place], AcodeError):
            places.append(place)
            claims.append(then)
    for place, leases in zip(places, claim(tx, claims), strict=True):
        results[place] = leases


class _Ended(NamedTuple):
    row: Row
    report: Report
    before: Task
    task: Task
    reason: str


def _settle(tx: Transaction, reports: Sequence[Report]) -> Accepted:
    """Read the tasks, decide what becomes of them, write that."""
    if not reports:
        return set()
    running = {row[0]: row for row in tx.among("running", {one.task_id for one in reports})}
    ended: list[_Ended] = []
    for report in reports:
        row = running.get(report.task_id)
        if row is not None and row[TOKEN] == report.token:
            del running[report.task_id]
            task = task_from(row)
            ended.append(_Ended(row, report, task, *transitions.finished(task, report)))
    _write(tx, ended)
    return {(one.report.task_id, one.report.token) for one in ended}


def _write(tx: Transaction, ended: list[_Ended]) -> None:
    tx.put("settle", [settled_row(one.row[SEQ], one.task) for one in ended])
    for one in ended:
        status, actor = one.task.status, one.report.actor
        tx.note_move(one.row[SEQ], "running", status.value, actor, one.reason, _attempt_row(one))
        tx.count("running", status.value, one.row[LEVEL])
        if status is Status.FAILED:
            _bury(tx, one)
    completed = [one for one in ended if one.task.status is Status.COMPLETED]
    forget_steps(tx, [one.task.id for one in completed])
    free_dependents(tx, [one.row[SEQ] for one in completed])


def _attempt_row(one: _Ended) -> Row:
    before, report = one.before, one.report
    failure = report.verdict.failure
    return (
        before.last_attempt,
        before.worker_id,
        report.ran_on or before.host_id,
        before.started_at,
        report.ended_at,
        text(report.ending),
        text(failure),
        text(report.usage),
    )


def _bury(tx: Transaction, one: _Ended) -> None:
    tx.write_moves()  # this failure is one of them
    first = tx.value("first_failure", seq=one.row[SEQ]) or one.report.ended_at
    steps = steps_of(tx, [one.task.id]).get(one.task.id, {})
    letter = transitions.dead_letter(one.task, first, steps)
    tx.run("insert_dead_letter", **dead_letter_row(letter, tx.now))
    forget_steps(tx, [one.task.id])
