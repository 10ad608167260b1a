"""The ends of attempts, set-based: all that are reported together are written together.

A result that is an exception is raised to the one who asked; the others are not touched.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from acode.errors import AcodeError, LeaseLost
from acode.model.state import Status
from acode.model.task import Lease, Task
from acode.model.verdict import Fail, Report, RetryAt
from acode.store import transitions
from acode.store.base import Claim
from acode.store.sqlite.rows import Row, dead_letter_row, task_from, text
from acode.store.sqlite.steps import steps_of
from acode.store.sqlite.transaction import Transaction


class Finish(NamedTuple):
    """One call of `finish`."""

    report: Report
    then: Claim | None


def finish(tx: Transaction, finishes: Sequence[Finish]) -> list[list[Lease] | AcodeError]:
    """Write the ends of attempts whose token is still the current one, then claim anew."""
    running = {row[0]: row for row in tx.among("running", {one.report.task_id for one in finishes})}
    results: list[list[Lease] | AcodeError] = []
    ended: list[_Ended] = []
    for report, _ in finishes:
        row = running.get(report.task_id)
        if row is None or row[-1] != report.token:
            results.append(LeaseLost(f"the attempt of task {report.task_id} is not current"))
            continue
        del running[report.task_id]
        ended.append(_end(row, report))
        results.append([])
    _write_ends(tx, ended)
    _claim_next(tx, finishes, results)
    return results


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
