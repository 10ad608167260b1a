"""How PostgreSQL runs the named queries."""

import os
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from typing import Any

import msgspec
from psycopg import Connection, Cursor, Pipeline

from acode.model.state import Status
from acode.store.sql.queries import Queries
from acode.store.sql.rows import Row
from acode.store.sql.transaction import Transaction, filling

QUERIES = Queries(os.path.join(os.path.dirname(__file__), "queries.sql"))
NEAR, FAR = 8, 64
"""A claim looks so much further than it needs, and so many times further when that is not enough
because others are claiming the same tasks."""
DAY_MS = 86_400_000
_RETURNING = {"complete", "tasks_with_ids"}
"""Set-based writes that do not begin with SELECT and answer all the same."""
_RINGING = {"wish_end", "set_paused", "unset_paused"}


class PostgresTransaction(Transaction):
    """A transaction of one connection."""

    __slots__ = ("_asked", "_connection", "_moment", "_shard", "pipeline", "rings")

    def __init__(
        self, connection: Connection, now: int, moment: int | None, ageing_ms: int, shard: int
    ) -> None:
        super().__init__(now, ageing_ms)
        self._connection = connection
        self._asked: dict[str, Cursor[Row]] = {}
        self._moment = moment
        self._shard = shard
        self.rings = False
        """Whether an idle pool should look at what was written."""
        self.pipeline: Pipeline | None = None
        """While it is there, a statement is on its way when the answer to a later one is read."""

    @property
    def moment(self) -> int | None:
        """None: leases run by the server's clock. A test brings its own."""
        return self._moment

    def all(self, name: str, **parameters: Any) -> list[Row]:
        """Every row."""
        return self._connection.execute(statement(name), parameters).fetchall()

    def compose(self, name: str, **parts: str) -> str:
        """A statement that is put together."""
        return _composed(name, **parts).decode()

    def rows(self, statement: str, parameters: dict[str, Any]) -> list[Row]:
        """Every row of a statement that was put together."""
        cursor = self._connection.execute(statement.encode(), parameters)
        return [] if statement.startswith("DELETE") else cursor.fetchall()

    def value(self, name: str, **parameters: Any) -> Any:
        """The first column of the first row; None without one."""
        asked = self._asked.pop(name, None)
        cursor = asked or self._connection.execute(statement(name), parameters)
        row = cursor.fetchone()
        return row and row[0]

    def run(self, name: str, **parameters: Any) -> int:
        """A write; says how many rows it changed."""
        self.rings = self.rings or name in _RINGING
        cursor = self._connection.execute(statement(name), parameters)
        if self.pipeline is not None:
            self.pipeline.sync()
        return cursor.rowcount

    def put(self, name: str, rows: Sequence[Row]) -> list[Row]:
        """A set-based write; the rows that it returns, if it returns any."""
        if not rows:
            return []
        columns = [list(column) for column in zip(*rows, strict=True)]
        text = _set_statement(name)
        cursor = self._asked.pop(name, None) or self._connection.execute(text, columns)
        return cursor.fetchall() if name in _RETURNING or text.startswith(b"SELECT") else []

    def slot(self, name: str) -> str:
        """How a parameter of this name is written in a statement."""
        return f"%({name})s"

    def fresh_seqs(self, count: int) -> Iterator[int]:
        """Sequence numbers for new tasks; those that are not used stay unused."""
        self._asked["waiting"] = self._connection.execute(statement("waiting"), {})
        fresh = [row[0] for row in self.all("fresh_seqs", count=count)]
        if len(fresh) < count:
            raise filling()
        return iter(fresh)

    def ahead(self, name: str, values: Collection[Any]) -> None:
        """Send the question now; the answer comes with that to a later one."""
        if values:
            asked = self._connection.execute(_set_statement(name), [list(values)])
            self._asked[name] = asked

    def may_claim(self) -> bool:
        """The candidates are none if claims are held."""
        return True

    def windows(self, limit: int) -> tuple[int, ...]:
        """A little further than needed, then much further."""
        return (limit + NEAR, (limit + NEAR) * FAR)

    def hold(self, task_ids: Sequence[str]) -> None:
        """Lock them in the order of their arrival."""
        if len(task_ids) > 1:
            self.among("hold", task_ids)

    def hold_dependents(self, completed: Sequence[int]) -> bool:
        """Lock what waits for these."""
        return bool(self.among("hold_dependents", completed))

    def abandoned(self, host_id: str) -> list[Row]:
        """The leases of hosts whose time is up."""
        if not self.value("host_is_in_time", id=host_id, now=self._moment):
            return []
        self.run("lose_hosts", id=host_id, now=self._moment)
        self.run("forget_hosts", age=DAY_MS, now=self._moment)
        return self.all("abandoned")

    def freeze(self) -> None:
        """Let others read and nothing else."""
        self._connection.execute(statement("freeze"))

    def load(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Put rows in as they are."""
        command = _composed("load", table=table, columns=", ".join(columns))
        records = [dict(zip(columns, row, strict=True)) for row in rows]
        self._connection.execute(command, {"rows": msgspec.json.encode(records).decode()})

    def renumber(self, newest: int) -> None:
        """Go on counting where the rows end, and the moves at this number."""
        self.value("renumber", newest=newest)

    def damage(self) -> list[str]:
        """Rows that point to nothing."""
        return [
            f"a row of {row[0]} points to a task that is not there" for row in self.all("orphans")
        ]

    def write_moves(self) -> None:
        """Write the noted lines of history, marked as being on their way."""
        if self._moves:
            self.rings = self.rings or any(move[2] == Status.PENDING for move in self._moves)
            self._connection.execute(statement("hold_newest"))
        super().write_moves()

    def bump(self, changes: list[tuple[str, int, int]]) -> None:
        """Change tallies of our own shard, in one order, so that nobody waits in a circle."""
        if changes:
            statuses, levels, amounts = (list(each) for each in zip(*sorted(changes), strict=True))
            values = {"statuses": statuses, "levels": levels, "changes": amounts}
            self._connection.execute(statement("bump_tally"), {"shard": self._shard, **values})


@cache
def statement(name: str) -> bytes:
    """A named query. As bytes: the driver takes no text that was put together at run time."""
    return QUERIES.sql(name).encode()


@cache
def _set_statement(name: str) -> bytes:
    """The same for arrays: in binary, where nothing has to be quoted."""
    return statement(name).replace(b"%s", b"%b")


@cache
def _composed(name: str, **parts: str) -> bytes:
    return QUERIES.sql(name, **parts).encode()
