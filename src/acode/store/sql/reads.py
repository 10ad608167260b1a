"""Reading: tasks, records, counts, and what is wrong with the file."""

import re
from typing import Any

import msgspec

from acode.errors import AmbiguousId, TaskNotFound
from acode.ids import is_prefix, normalise
from acode.model.priority import Priority
from acode.model.state import Status
from acode.model.task import DeadLetter, Lease, Move, Record, Task
from acode.store.base import BY_STATUS, Counts, TaskQuery
from acode.store.sql.rows import (
    SEQ,
    STATUS,
    TOKEN,
    Row,
    attempt_from,
    dead_letter_from,
    move_from,
    open_attempt,
    record_from,
    sensible,
    task_from,
)
from acode.store.sql.transaction import Transaction


def resolve(tx: Transaction, prefix: str) -> str:
    """The one id that begins so."""
    low = normalise(prefix)
    if not is_prefix(low):
        raise TaskNotFound(f"{prefix!r} is not an id or the beginning of one")
    found = [row[0] for row in tx.all("ids_between", low=low, high=low + "~")]
    if not found:
        raise TaskNotFound(f"no task has an id that begins with {low}")
    if len(found) > 1:
        raise AmbiguousId(f"more than one task has an id that begins with {low}")
    return str(found[0])


def get(tx: Transaction, task_id: str) -> Task:
    """One task."""
    rows = tx.all("one", id=task_id)
    return task_from(rows[0]) if rows else record(tx, task_id).task


def record(tx: Transaction, task_id: str) -> Record:
    """One task with its attempts and history."""
    rows = tx.all("one", id=task_id)
    if not rows:
        return _archived(tx, task_id)
    task, seq = task_from(rows[0]), rows[0][SEQ]
    ended = [attempt_from(row) for row in tx.all("attempts_of", seq=seq)]
    return Record(
        task=task,
        attempts=tuple(ended + open_attempt(task)),
        history=tuple(move_from(row, task_id) for row in tx.all("history_of", seq=seq)),
    )


def _archived(tx: Transaction, task_id: str) -> Record:
    document = tx.value("archived", id=task_id)
    if document is None:
        raise TaskNotFound(f"no task has the id {task_id}")
    return record_from(document)


def find(tx: Transaction, query: TaskQuery) -> list[Task]:
    """Tasks that fit, in the order asked for."""
    if query.sort.by == "status":
        return _find_by_status(tx, query)
    order = {"created": "seq", "priority": "priority, seq"}[query.sort.by]
    return _find(tx, query, query.statuses, order, query.limit, query.offset)


def _find_by_status(tx: Transaction, query: TaskQuery) -> list[Task]:
    """One listing per status, joined: each is a range of an index."""
    wanted = [status for status in BY_STATUS if not query.statuses or status in query.statuses]
    if query.sort.reverse:
        wanted.reverse()
    found: list[Task] = []
    end = query.offset + query.limit
    for status in wanted:
        found += _find(tx, query, (status,), "seq", end - len(found), 0)
        if len(found) >= end:
            break
    return found[query.offset :]


def _find(
    tx: Transaction,
    query: TaskQuery,
    statuses: tuple[Status, ...],
    order: str,
    limit: int,
    offset: int,
) -> list[Task]:
    where = ["true"]
    values: dict[str, Any] = {"limit": limit, "offset": offset}
    if statuses:
        values |= {f"status{n}": status.value for n, status in enumerate(statuses)}
        slots = [tx.slot(f"status{n}") for n in range(len(statuses))]
        where.append(f"status IN ({', '.join(slots)})")
    if query.priority is not None:
        where.append(f"priority = {tx.slot('priority')}")
        values["priority"] = query.priority.level
    if query.workstream_id is not None:
        where.append(f"workstream_id = {tx.slot('workstream_id')}")
        values["workstream_id"] = query.workstream_id
    if query.text:
        where.append(tx.compose("mentions"))
        values |= _mentioned(query.text)
    if query.sort.reverse:
        order = ", ".join(f"{column} DESC" for column in order.split(", "))
    statement = tx.compose("find", where=" AND ".join(where), order=order)
    return [task_from(row) for row in tx.rows(statement, values)]


def _mentioned(text: str) -> dict[str, str]:
    """The text for LIKE, as it stands in a column and as it stands in JSON."""
    plain, written = _literal(text), _literal(msgspec.json.encode(text).decode()[1:-1])
    return {"text": f"%{plain}%", "written": f"%{written}%", "beginning": f"{plain}%"}


def _literal(text: str) -> str:
    return re.sub(r"([\\%_])", r"\\\1", text)


def moves(tx: Transaction, window: tuple[int, int]) -> list[Move]:
    """Moves of all tasks after a sequence number."""
    since, limit = window
    return [move_from(row, row[-1]) for row in tx.all("moves", since=since, limit=limit)]


def newest_move(tx: Transaction) -> int:
    """The sequence number of the last move."""
    return int(tx.value("newest_move") or 0)


def arrivals(tx: Transaction, window: tuple[int, int]) -> int:
    """How many tasks were added after one move and up to another."""
    since, until = window
    return int(tx.value("arrivals", since=since, until=until))


def leases(tx: Transaction, host_id: str | None) -> list[Lease]:
    """Every lease that is out, or those of one host."""
    rows = tx.all("leases") if host_id is None else tx.all("leases_of", host_id=host_id)
    return [lease_from(row) for row in rows]


def lease_from(row: Row) -> Lease:
    """A lease from the columns, the token and the sequence number."""
    task = task_from(row)
    return Lease(
        task=task, number=task.last_attempt, token=row[TOKEN], worker_id=task.worker_id or ""
    )


def wishes(tx: Transaction) -> list[Task]:
    """Running tasks that a user wants to end."""
    return [task_from(row) for row in tx.all("wishes")]


_NONE = dict.fromkeys(Status, 0)
_NONE_PENDING = dict.fromkeys(Priority, 0)


@sensible
def counts(tx: Transaction) -> Counts:
    """The queue at a glance."""
    by_status, pending = _NONE.copy(), _NONE_PENDING.copy()
    for status, level, n in tx.all("tallies"):
        by_status[STATUS[status]] += n
        if n and status == Status.PENDING:
            pending[Priority.at_level(level)] = n
    return Counts(
        by_status=by_status,
        pending_by_priority=pending,
        paused=bool(tx.value("is_paused")),
        oldest_ready_at=tx.value("oldest_ready"),
    )


def dead_letters(tx: Transaction, task_id: str | None) -> list[DeadLetter]:
    """Tasks that failed for good."""
    rows = tx.all("dead_letters") if task_id is None else tx.all("dead_letter_of", id=task_id)
    return [dead_letter_from(row) for row in rows]


_RULES = {
    "failed_without_letter": "task {} failed but is no dead letter",
    "letters_without_failure": "dead letter {} belongs to no failed task",
    "blocked_without_need": "task {} is blocked but waits for nothing",
}


def check(tx: Transaction) -> list[str]:
    """Everything that is wrong, in words."""
    wrong = tx.damage()
    wrong += [
        f"{row[2]} {row[0]} tasks of level {row[1]} are noted, {row[3]} are there"
        for row in tx.all("wrong_tallies")
    ]
    for name, message in _RULES.items():
        wrong += [message.format(row[0]) for row in tx.all(name)]
    return wrong
