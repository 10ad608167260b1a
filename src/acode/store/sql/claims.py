"""Claiming, set-based: the claims that wait together share a query and a few statements."""

import os
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from acode.model.task import Lease, Task
from acode.store.base import Claim
from acode.store.sql.rows import LEVEL, READY, SEQ, Row, tasks_from, text
from acode.store.sql.steps import steps_of
from acode.store.sql.transaction import Transaction, tally
from acode.store.transitions import claimed

TOKEN_BYTES = 16

Assigned = tuple[Task, str]
"""A task and the worker that gets it."""


_kind = attrgetter("held", "host_id")
"""Claims of one kind share a query."""


def claim(tx: Transaction, claims: Sequence[Claim]) -> list[list[Lease]]:
    """Lease ready tasks for every claim in turn; neighbours that hold the same share a query."""
    shared = groupby(claims, key=_kind)
    return [leases for _, alike in shared for leases in _claim(tx, list(alike))]


def _claim(tx: Transaction, claims: list[Claim]) -> list[list[Lease]]:
    limit = _limit(claims)
    rows = _candidates(tx, limit, claims[0]) if limit else []
    if not rows:
        return [[] for _ in claims]
    ready = tasks_from(rows)
    assigned = [_assigned(ready, one) for one in claims]
    leases = _leases(tx, [pair for pairs in assigned for pair in pairs], claims[0].host_id)
    _write(tx, leases, {row[0]: row for row in rows})
    rest = iter(leases)
    return [[next(rest) for _ in pairs] for pairs in assigned]


def foresee(tx: Transaction, claims: Sequence[Claim]) -> None:
    """Ask early for what these will most likely be given."""
    alike = all(_kind(one) == _kind(claims[0]) for one in claims)
    if alike and (limit := _limit(claims)):
        tx.ask(*_question(tx, limit, tx.windows(limit)[0], claims[0]))


def _limit(claims: Sequence[Claim]) -> int:
    return sum([one.limit for one in claims if one.limit > 0])


def _candidates(tx: Transaction, limit: int, alike: Claim) -> list[Row]:
    near, *further = tx.windows(limit)
    rows = tx.rows(*_question(tx, limit, near, alike))
    for window in further:
        if len(rows) >= limit or (rows and rows[0][READY] < near):
            break
        # There may be more than could be seen: others claim what is nearest.
        rows = tx.rows(*_question(tx, limit, window, alike))
    return rows


def _question(tx: Transaction, limit: int, window: int, alike: Claim) -> tuple[str, dict[str, Any]]:
    held, host_id = alike.held, alike.host_id
    wanted: dict[str, Any] = {"now": tx.moment, "limit": limit, "ageing": tx.ageing_ms}
    wanted |= {"host_id": host_id, "window": window}
    if held:
        wanted["held"] = text([tuple(circuit) for circuit in held])
    return tx.candidates(tx.compose("not_held") if held else "true", window), wanted


def _assigned(ready: list[Task], wanted: Claim) -> list[Assigned]:
    """What one claim takes; what it leaves alone is offered to the next one."""
    if not ready or wanted.limit <= 0:
        return []
    offer = ready[: wanted.limit]
    given = list(zip(offer, wanted.assign(offer), strict=True))
    ready[: wanted.limit] = [task for task, worker in given if not worker]
    return [(task, worker) for task, worker in given if worker]


def _leases(tx: Transaction, assigned: list[Assigned], host_id: str | None) -> list[Lease]:
    now = tx.now
    steps = steps_of(tx, [task.id for task, _ in assigned if task.last_attempt])
    return [
        Lease(
            task=claimed(task, worker, now, host_id),
            number=task.last_attempt + 1,
            token=token,
            worker_id=worker,
            steps=steps.get(task.id, {}),
        )
        for (task, worker), token in zip(assigned, fresh_tokens(len(assigned)), strict=True)
    ]


def fresh_tokens(count: int) -> list[str]:
    """Random tokens; asking the kernel once for all is cheaper."""
    digits = os.urandom(count * TOKEN_BYTES).hex()
    length = 2 * TOKEN_BYTES
    return [digits[start : start + length] for start in range(0, len(digits), length)]


def _write(tx: Transaction, leases: list[Lease], rows: dict[str, Row]) -> None:
    now = tx.now
    leased, levels = [], []
    for one in leases:
        row = rows[one.task.id]
        levels.append(row[LEVEL])
        leased.append((row[SEQ], one.number, one.worker_id, now, one.token, one.task.host_id))
    tx.lease(leased)
    for level, n in tally(levels).items():
        tx.count("pending", "running", level, n)
