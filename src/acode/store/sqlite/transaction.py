"""One commit: a connection, a moment, and the tallies that change with it."""

import sqlite3
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any

from acode.model.state import Status
from acode.store.sqlite.queries import sql
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
        self._tallies: dict[tuple[str, int], int] = {}

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

    def waiting(self) -> int:
        """Tasks that wait, those of this transaction included."""
        noted = sum(n for (status, _), n in self._tallies.items() if status in _WAITING)
        return int(self.value("waiting")) + noted

    def settle_tallies(self) -> None:
        """Write the noted changes; the last thing before the commit."""
        self.put("bump_tallies", [(*key, n) for key, n in self._tallies.items() if n])
        self._tallies.clear()


@cache
def _statement(name: str) -> str:
    return sql(name)


@cache
def _set_statement(name: str, rows: int, columns: int) -> str:
    row = f"({', '.join('?' * columns)})"
    return sql(name, rows=", ".join([row] * rows))


def _batches(name: str, rows: Sequence[Row]) -> Iterable[tuple[str, list[Any]]]:
    for start in range(0, len(rows), ROWS_PER_STATEMENT):
        batch = rows[start : start + ROWS_PER_STATEMENT]
        yield _set_statement(name, len(batch), len(batch[0])), list(chain.from_iterable(batch))
