"""One commit: a connection, a moment, and the tallies that change with it."""

import sqlite3
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any

from acode.model.state import Status
from acode.store.sqlite.queries import has, sql
from acode.store.sqlite.rows import Row

ROWS_PER_STATEMENT = 64
"""Measured: twice as fast as row by row; more rows gain nothing."""

_WAITING = (Status.PENDING.value, Status.BLOCKED.value)


class Transaction:
    """Runs named queries; whoever opened it commits."""

    def __init__(self, connection: sqlite3.Connection, now: int, ageing_ms: int) -> None:
        self.now = now
        self.ageing_ms = ageing_ms
        self._execute = connection.execute
        self._execute_many = connection.executemany
        self._tallies: dict[tuple[str, int], int] = {}
        self._moves: list[Row] = []

    def all(self, name: str, **parameters: Any) -> list[Row]:
        """Every row."""
        return self._execute(_statement(name), parameters).fetchall()

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
        if len(rows) == 1 and (single := _single_statement(name)):
            return self._execute(single, rows[0]).fetchall()
        found: list[Row] = []
        for statement, values in _batches(name, rows):
            found += self._execute(statement, values)
        return found

    def among(self, name: str, values: Iterable[Any]) -> list[Row]:
        """Every row of a query about a set of values, each given once."""
        return self.put(name, [(value,) for value in values])

    def count(self, was: str | None, became: str | None, level: int, n: int = 1) -> None:
        """Note that `n` tasks of this priority level went from one status to another."""
        if was is not None:
            self._tallies[was, level] = self._tallies.get((was, level), 0) - n
        if became is not None:
            self._tallies[became, level] = self._tallies.get((became, level), 0) + n

    def note_move(self, seq: int, was: str | None, became: str, actor: str, reason: str) -> None:
        """Note a line of a task's history."""
        self._moves.append((seq, was, became, self.now, actor, reason))

    def waiting(self) -> int:
        """Tasks that wait, those of this transaction included."""
        noted = sum(n for (status, _), n in self._tallies.items() if status in _WAITING)
        return int(self.value("waiting")) + noted

    def write_moves(self) -> None:
        """Write the noted lines of history, for whoever reads or removes them."""
        self.put("insert_history", self._moves)
        self._moves.clear()

    def settle(self) -> None:
        """Write what was noted; the last thing before the commit."""
        self.write_moves()
        changes = [(*key, n) for key, n in self._tallies.items() if n]
        self._execute_many(_statement("bump_tally"), changes)


def tally(levels: Iterable[int]) -> dict[int, int]:
    """How many there are of each priority level. `Counter` takes longer for a few."""
    counted: dict[int, int] = {}
    for level in levels:
        counted[level] = counted.get(level, 0) + 1
    return counted


@cache
def _statement(name: str) -> str:
    return sql(name)


@cache
def _single_statement(name: str) -> str | None:
    """The plain form of a set-based write, if it has one."""
    return sql(f"{name}_one") if has(f"{name}_one") else None


@cache
def _set_statement(name: str, rows: int, columns: int) -> str:
    row = f"({', '.join('?' * columns)})"
    return sql(name, rows=", ".join([row] * rows))


def _batches(name: str, rows: Sequence[Row]) -> Iterable[tuple[str, list[Any]]]:
    for start in range(0, len(rows), ROWS_PER_STATEMENT):
        batch = rows[start : start + ROWS_PER_STATEMENT]
        yield _set_statement(name, len(batch), len(batch[0])), list(chain.from_iterable(batch))
