"""How SQLite runs the named queries."""

import os
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, count
from typing import Any

from acode.store.sql.queries import Queries
from acode.store.sql.rows import Row
from acode.store.sql.transaction import MOVE_COLUMNS, Transaction, filling

ROWS_PER_STATEMENT = 64
"""Measured: twice as fast as row by row; more rows gain nothing."""

TASK_COLUMNS = 10
"""Of the rows that are inserted."""

QUERIES = Queries(os.path.join(os.path.dirname(__file__), "queries.sql"))


class SqliteTransaction(Transaction):
    """A transaction of one connection."""

    __slots__ = ("_execute", "_execute_many", "_now")

    def __init__(self, connection: sqlite3.Connection, now: int, ageing_ms: int) -> None:
        super().__init__(ageing_ms)
        self._now = now
        self._execute = connection.execute
        self._execute_many = connection.executemany

    @property
    def now(self) -> int:
        """By the clock of this machine."""
        return self._now

    def all(self, name: str, **parameters: Any) -> list[Row]:
        """Every row."""
        return self._execute(_statement(name), parameters).fetchall()

    def compose(self, name: str, **parts: str) -> str:
        """A statement that is put together."""
        return _composed(name, **parts)

    def rows(self, statement: str, parameters: dict[str, Any]) -> list[Row]:
        """Every row of a statement that was put together."""
        return self._execute(statement, parameters).fetchall()

    def value(self, name: str, **parameters: Any) -> Any:
        """The first column of the first row; None without one."""
        row = self._execute(_statement(name), parameters).fetchone()
        return row and row[0]

    def run(self, name: str, **parameters: Any) -> int:
        """A write; says how many rows it changed."""
        return self._execute(_statement(name), parameters).rowcount

    def put(self, name: str, rows: Sequence[Row]) -> list[Row]:
        """A set-based write; the rows that it returns, if it returns any."""
        if not rows:
            return []
        if len(rows) == 1:
            return self._execute(_statement_for_one(name, len(rows[0])), rows[0]).fetchall()
        found: list[Row] = []
        for statement, values in _batches(name, rows):
            found += self._execute(statement, values)
        return found

    def rehearse_addition(self) -> None:
        """Prepare the statements that add a task, which takes longer than to run them."""
        self.value("next_seq")
        self.value("waiting")
        self.known(())
        for written in (
            _statement_for_one("insert_tasks", TASK_COLUMNS),
            _statement_for_one("insert_history", MOVE_COLUMNS),
            _statement("bump_tally"),
        ):
            self._execute_many(written, ())

    def slot(self, name: str) -> str:
        """How a parameter of this name is written in a statement."""
        return f":{name}"

    def fresh_seqs(self, _count: int) -> Iterator[int]:
        """Sequence numbers for new tasks: nobody else writes meanwhile."""
        first = self.value("next_seq")
        if first is None:
            raise filling()
        return count(first)

    def complete(self, given: Sequence[Row]) -> list[Row]:
        """Complete tasks; what their rows know of the attempt is copied from there."""
        self.write_moves()  # those of a task are told in their order
        now = self._now
        ends = [
            (id_, token, ended_at, ending, usage, actor, now)
            for id_, token, ended_at, _, ending, usage, actor in given
        ]
        self.put("insert_completions", ends)
        rows = self.put("complete", [one[:4] for one in given])
        self.among("forget_steps", [id_ for id_, _, _, has_steps, _ in rows if has_steps])
        return [(id_, seq, level, is_needed) for id_, seq, level, _, is_needed in rows]

    def known(self, ids: Collection[str]) -> list[Row]:
        """Look only for those that may be there: nearly every new id is larger than all others."""
        newest = self.value("newest_id")
        return super().known([one for one in ids if one <= newest])

    def windows(self, limit: int) -> tuple[int, ...]:
        """Exactly so far: nobody else claims meanwhile."""
        return (limit,)

    def hold(self, _task_ids: Sequence[str]) -> None:
        """Nobody else writes meanwhile."""

    def hold_dependents(self, _completed: Sequence[int]) -> bool:
        """Nobody else writes meanwhile."""
        return True

    def abandoned(self, _host_id: str) -> list[Row]:
        """None: on one machine, death is proven and no time runs out."""
        return []

    def freeze(self) -> None:
        """Whoever writes has the file to himself."""

    def load(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Put rows in as they are."""
        slots, names = ", ".join("?" * len(columns)), ", ".join(columns)
        self._execute_many(_composed("load", table=table, columns=names, slots=slots), rows)

    def renumber(self, newest: int) -> None:
        """Go on counting the moves at this number; the rest follows the rows."""
        self.run("forget_number")
        self.run("set_number", newest=newest)

    def damage(self) -> list[str]:
        """What SQLite itself finds wrong with the file."""
        wrong = [str(row[0]) for row in self._execute("PRAGMA integrity_check") if row[0] != "ok"]
        return wrong + [
            f"a row of {row[0]} points to a row of {row[2]} that is not there"
            for row in self._execute("PRAGMA foreign_key_check")
        ]

    def bump(self, changes: list[tuple[str, int, int]]) -> None:
        """Change tallies."""
        self._execute_many(_statement("bump_tally"), changes)


@cache
def _statement(name: str) -> str:
    return QUERIES.sql(name)


@cache
def _composed(name: str, **parts: str) -> str:
    return QUERIES.sql(name, **parts)


@cache
def _statement_for_one(name: str, columns: int) -> str:
    """The plain form of a set-based query, if it has one."""
    plain = f"{name}_one"
    return QUERIES.sql(plain) if QUERIES.has(plain) else _set_statement(name, 1, columns)


@cache
def _set_statement(name: str, rows: int, columns: int) -> str:
    row = f"({', '.join('?' * columns)})"
    return QUERIES.sql(name, rows=", ".join([row] * rows))


def _batches(name: str, rows: Sequence[Row]) -> Iterable[tuple[str, list[Any]]]:
    for start in range(0, len(rows), ROWS_PER_STATEMENT):
        batch = rows[start : start + ROWS_PER_STATEMENT]
        yield _set_statement(name, len(batch), len(batch[0])), list(chain.from_iterable(batch))
