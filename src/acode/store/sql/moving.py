"""Moving a queue from one store to another: page by page, in one order, checked at the end.

The source is held all the while, so that it stays as it is. A page is one commit of the target,
and pages come in the order of their keys. So what an interrupted move has left in the target is a
beginning, and the next one goes on behind it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from acode.errors import AlreadyThere, PoolRunning, StoreDamaged
from acode.model.state import Status
from acode.store.sql.rows import Row
from acode.store.sql.transaction import Transaction
from acode.store.sql.writer import Book

PAGE = 1000
ACTOR = "queue migrate"
Progress = Callable[[str, int, int], None]
"""Told what is being done, how many rows of it are done, and how many there are."""


class Table(NamedTuple):
    """The columns of a table, those of its key first."""

    name: str
    keys: int
    columns: tuple[str, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """What its rows are ordered by."""
        return self.columns[: self.keys]

    def key_of(self, row: Row) -> Row:
        """Where a row stands."""
        return row[: self.keys]


def _table(name: str, keys: int, columns: str) -> Table:
    return Table(name, keys, tuple(columns.split()))


TABLES = (
    _table(
        "tasks",
        1,
        "seq id status priority kind workstream_id key created_at ready_at started_at completed_at "
        "attempt_count last_attempt worker_id host_id token cancel spec result error",
    ),
    _table(
        "history",
        1,
        "seq task was became at actor reason number worker_id host_id started_at ended_at ending "
        "error usage",
    ),
    _table("dependencies", 2, "needs task"),
    _table("checkpoints", 2, "task_id step value saved_at"),
    _table(
        "dead_letter_queue",
        1,
        "id task_id task_type document_id failure_reason attempt_count first_failure last_failure "
        "error_details checkpoint created_at",
    ),
    _table("archive", 1, "id status completed_at record"),
    _table("flags", 1, "name at actor"),
)


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """What was moved, and compared row by row afterwards."""

    rows: dict[str, int]
    resumed: bool


def move(source: Book, target: Book, progress: Progress) -> Moved:
    """Copy everything, look at it again, then let the target go."""
    moved: Moved = source.commit([(lambda tx, _: [_move(tx, target, progress)], [None])])[0][0]
    return moved


def _move(source: Transaction, target: Book, progress: Progress) -> Moved:
    source.freeze()
    _refuse_running(source)
    source.run("set_paused", at=source.now, actor=ACTOR)
    resumed = target.commit([(_prepare, [_fingerprint(source)])])[0][0]
    for table in TABLES:
        _copy(source, target, table, progress)
    target.commit([(_number, [source.value("newest_number")])])
    rows = {table.name: _compare(source, target, table, progress) for table in TABLES}
    target.commit([(_release, [None])])
    return Moved(rows=rows, resumed=resumed)


def _refuse_running(source: Transaction) -> None:
    if source.value("hosts_in_time", now=source.moment):
        raise PoolRunning("a pool works on this queue", "stop it first, on every machine")
    running = source.value("running_tasks")
    if running:
        raise PoolRunning(
            f"{running} tasks are marked as running, by a pool that was killed",
            "start the pool once more, so that it looks after them, and stop it",
        )


def _fingerprint(source: Transaction) -> str:
    """The same as long as nothing has been written to the source."""
    counted = {table.name: _count(source, table) for table in TABLES}
    return msgspec.json.encode([source.value("newest_number"), counted]).decode()


def _count(tx: Transaction, table: Table) -> int:
    """Rows that move: that the queue is held by us is no matter of the target."""
    held = table.name == "flags" and tx.value("is_held_by", actor=ACTOR)
    count = tx.rows(tx.compose("rows_in", table=table.name), {})[0][0]
    return int(count) - bool(held)


def _prepare(target: Transaction, fingerprints: Sequence[str]) -> list[bool]:
    """Make the target ready; whether it holds a beginning of just this move."""
    (fingerprint,) = fingerprints
    begun = target.value("moving")
    if begun == fingerprint:
        return [True]
    if begun is None and any(_count(target, table) for table in TABLES):
        raise AlreadyThere(
            "the store to move to is not empty", "move to an empty database or to a new file"
        )
    # What an earlier move of something else has left is of no use to anybody.
    for table in TABLES:
        target.rows(target.compose("wipe", table=table.name), {})
    target.run("set_moving", at=target.now, actor=fingerprint)
    return [False]


def _copy(source: Transaction, target: Book, table: Table, progress: Progress) -> None:
    done, total = target.read(_standing, table), _count(source, table)
    after = target.read(_last_key, table)
    progress(f"copying {table.name}", done, total)
    for page in _pages(source, table, after):
        target.commit([(_load, [(table, page)])])
        done += len(page)
        progress(f"copying {table.name}", done, total)


def _standing(tx: Transaction, table: Table) -> int:
    return _count(tx, table) - (table.name == "flags")


def _last_key(tx: Transaction, table: Table) -> Row | None:
    if table.name == "flags":
        return None  # a handful, and one of them is the target's own
    backwards = ", ".join(f"{column} DESC" for column in table.key)
    statement = tx.compose(
        "last_key", table=table.name, key=", ".join(table.key), backwards=backwards
    )
    rows = tx.rows(statement, {})
    return tuple(rows[0]) if rows else None


def _pages(tx: Transaction, table: Table, after: Row | None = None) -> Iterator[list[Row]]:
    while page := _page(tx, table, after):
        after = table.key_of(page[-1])
        kept = [tuple(row) for row in page if not _stays(table, row)]
        if kept:
            yield kept


def _page(tx: Transaction, table: Table, after: Row | None) -> list[Row]:
    columns, key = ", ".join(table.columns), ", ".join(table.key)
    values = {f"key{place}": value for place, value in enumerate(after or ())}
    behind = f"({key}) > ({', '.join(tx.slot(name) for name in values)})" if values else "true"
    statement = tx.compose("page", table=table.name, columns=columns, key=key, behind=behind)
    return tx.rows(statement, values | {"limit": PAGE})


def _stays(table: Table, row: Row) -> bool:
    """What belongs to the move itself."""
    return table.name == "flags" and (row[0] == "moving" or row[2] == ACTOR)


def _load(target: Transaction, pages: Sequence[tuple[Table, list[Row]]]) -> list[None]:
    for table, rows in pages:
        if table.name == "flags":
            target.rows(target.compose("wipe_flags"), {})
        target.load(table.name, table.columns, rows)
    return [None] * len(pages)


def _number(target: Transaction, newest: Sequence[int]) -> list[None]:
    """Count on where the source stopped, and note how many tasks there are of each kind."""
    target.renumber(int(newest[0] or 0))
    target.run("zero_tallies")
    for status in Status:
        for level, n in target.rows(
            target.compose("levels_of", status=target.slot("status")), {"status": status.value}
        ):
            target.count(None, status.value, level, n)
    return [None]


def _compare(source: Transaction, target: Book, table: Table, progress: Progress) -> int:
    """Every row once more, from either side."""
    done, total = 0, _count(source, table)
    after: Row | None = None
    for page in _pages(source, table):
        if target.read(_same_page, table, after, len(page)) != page:
            raise StoreDamaged(
                f"{table.name} of the new store are not those of the old one",
                "see that nobody writes to the new one, and move again; the old one is untouched",
            )
        after = table.key_of(page[-1])
        done += len(page)
        progress(f"comparing {table.name}", done, total)
    if target.read(_standing, table) != total:
        raise StoreDamaged(f"the new store has other {table.name}, too; nothing was released")
    return total


def _same_page(tx: Transaction, table: Table, after: Row | None, size: int) -> list[Row]:
    rows = [tuple(row) for row in _page(tx, table, after) if not _stays(table, row)]
    return rows[:size]


def _release(target: Transaction, _: Sequence[None]) -> list[None]:
    target.run("unset_moving")
    return [None]
