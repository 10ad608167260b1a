"""How PostgreSQL runs the named queries."""

import os
from collections.abc import Collection, Iterator, Sequence
from functools import cache, cached_property
from itertools import zip_longest
from typing import Any

import msgspec

from acode.clock import RemoteClock, ticks
from acode.model.state import Status
from acode.store.postgres.wire import Answer, Wire
from acode.store.sql.queries import Queries
from acode.store.sql.rows import Row
from acode.store.sql.transaction import MOVE_COLUMNS, Transaction, filling

QUERIES = Queries(os.path.join(os.path.dirname(__file__), "queries.sql"))
NEAR, FAR = 16, 64
"""A claim looks at least so far, and at twice as many as it needs; so many times further when that
is not enough because others are claiming the same tasks."""
DAY_MS = 86_400_000
_RETURNING = {"tasks_with_ids"}
"""Set-based writes that do not begin with SELECT and answer all the same."""
_COMPLETED = ("ids", "tokens", "ended", "results", "endings", "usages", "actors")
_MOVE = ("tasks", "was", "became", "at", "actors", "reasons")
_ATTEMPT = ("numbers", "workers", "hosts", "started", "ended", "endings", "errors", "usages")
_RINGING = {"wish_end", "set_paused", "unset_paused"}


class Begun:
    """A transaction that has begun; its moment and number are read when somebody needs them."""

    def __init__(self, answer: Answer, clock: RemoteClock, moment: int | None) -> None:
        self._said = answer
        self._clock = clock
        self._asked = ticks()
        self.moment = moment
        """A test brings its own."""

    @cached_property
    def _answer(self) -> tuple[int, str]:
        now, xid, *_ = self._said.row() or (0, "")
        # Other answers may have come with it, so it is as old as the question.
        self._clock.tell(now + round((ticks() - self._asked) * 1000))
        return now, xid

    @property
    def now(self) -> int:
        """When it began, by the server's clock."""
        now, _ = self._answer
        return now if self.moment is None else self.moment

    @property
    def xid(self) -> str:
        """The number by which the server knows what became of it."""
        return self._answer[1]


class PostgresTransaction(Transaction):
    """A transaction of one line. What is asked is sent when somebody reads an answer."""

    __slots__ = (
        "_asked",
        "_begun",
        "_foreseen",
        "_shard",
        "_waiting",
        "_wire",
        "rings",
    )

    foresees = True

    def __init__(self, wire: Wire, begun: Begun, ageing_ms: int, shard: int) -> None:
        super().__init__(ageing_ms)
        self._wire = wire
        self._begun = begun
        self._asked: dict[str, Answer] = {}
        self._foreseen: tuple[str, dict[str, Any], Answer] | None = None
        self._shard = shard
        self.rings = False
        """Whether an idle pool should look at what was written."""

    @property
    def now(self) -> int:
        """By the server's clock, when the transaction began."""
        return self._begun.now

    @property
    def moment(self) -> int | None:
        """None: leases run by the server's clock. A test brings its own."""
        return self._begun.moment

    def all(self, name: str, **parameters: Any) -> list[Row]:
        """Every row."""
        return self._wire.execute(statement(name), parameters).rows()

    def compose(self, name: str, **parts: str) -> str:
        """A statement that is put together."""
        return QUERIES.sql(name, **parts)

    def rows(self, statement: str, parameters: dict[str, Any]) -> list[Row]:
        """Every row of a statement that was put together."""
        foreseen = self._foresaw(statement, parameters)
        return (foreseen or self._wire.execute(statement, parameters)).rows()

    def ask(self, statement: str, parameters: dict[str, Any]) -> None:
        """Send the question now; the answer comes with that to a later one."""
        self._foreseen = (statement, parameters, self._wire.execute(statement, parameters))

    def _foresaw(self, statement: str, parameters: dict[str, Any]) -> Answer | None:
        foreseen, self._foreseen = self._foreseen, None
        return foreseen[2] if foreseen and foreseen[:2] == (statement, parameters) else None

    def value(self, name: str, **parameters: Any) -> Any:
        """The first column of the first row; None without one."""
        asked = self._asked.pop(name, None)
        row = (asked or self._wire.execute(statement(name), parameters)).row()
        return row and row[0]

    def run(self, name: str, **parameters: Any) -> int:
        """A write; says how many rows it changed."""
        self.rings = self.rings or name in _RINGING
        return self._wire.execute(statement(name), parameters).count()

    def put(self, name: str, rows: Sequence[Row]) -> list[Row]:
        """A set-based write; the rows that it returns, if it returns any."""
        if not rows:
            return []
        columns = [list(column) for column in zip(*rows, strict=True)]
        text = statement(name)
        answer = self._asked.pop(name, None) or self._wire.execute(text, columns)
        return answer.rows() if name in _RETURNING or text.startswith("SELECT") else []

    def slot(self, name: str) -> str:
        """How a parameter of this name is written in a statement."""
        return f"%({name})s"

    def fresh_seqs(self, count: int) -> Iterator[int]:
        """Sequence numbers for new tasks; those that are not used stay unused."""
        fresh = self.all("fresh_seqs", count=count)
        if len(fresh) < count:
            raise filling()
        self._waiting = fresh[0][1] if fresh else 0
        return iter([row[0] for row in fresh])

    def waiting(self) -> int:
        """Tasks that wait; asked together with the numbers for those that are to join them."""
        return int(self._waiting or 0) + self.noted_waiting()

    def ahead(self, name: str, values: Collection[Any]) -> None:
        """Send the question now; the answer comes with that to a later one."""
        if values:
            self._asked[name] = self._wire.execute(statement(name), [list(values)])

    def windows(self, limit: int) -> tuple[int, ...]:
        """Further than needed, then much further. There are few of them, each with its own plan."""
        near = max(NEAR, 1 << (2 * limit - 1).bit_length())
        return (near, near * FAR)

    def candidates(self, fits: str, window: int) -> str:
        """The statement that finds what to claim among what fits."""
        return _candidates(fits, window)

    def lease(self, leased: Sequence[Row]) -> None:
        """Write leases and their moves down: all of one claim are for the same host."""
        if leased:
            self.write_moves()  # those of a task are told in their order
            seqs, _, workers, now, tokens, host = zip(*leased, strict=True)
            given = {"seqs": list(seqs), "workers": list(workers), "tokens": list(tokens)}
            same = {"now": now[0], "host_id": host[0]}
            self._wire.execute(statement("lease"), {**given, **same})

    def complete(self, given: Sequence[Row]) -> list[Row]:
        """Complete tasks and write all that belongs to that down."""
        self.write_moves()
        columns = [list(column) for column in zip(*given, strict=True)]
        named = dict(zip(_COMPLETED, columns, strict=True))
        answer = self._wire.execute(statement("complete"), {**named, "now": self.moment})
        # Behind it: what waits for these cannot be added unseen any more.
        self.ahead("hold_dependents_of", named["ids"])
        return answer.rows()

    def hold(self, task_ids: Sequence[str]) -> None:
        """Lock them in the order of their arrival."""
        if len(task_ids) > 1:
            self.among("hold", task_ids)

    def hold_dependents(self, completed: Sequence[int]) -> bool:
        """Lock what waits for these."""
        asked = self._asked.pop("hold_dependents_of", None)
        held = bool(asked.rows() if asked else self.among("hold_dependents", completed))
        if held:
            self._foreseen = None  # what becomes ready now has to be looked at, too
        return held

    def abandoned(self, host_id: str) -> list[Row]:
        """The leases of hosts whose time is up."""
        if not self.value("host_is_in_time", id=host_id, now=self.moment):
            return []
        self.run("lose_hosts", id=host_id, now=self.moment)
        self.run("forget_hosts", age=DAY_MS, now=self.moment)
        return self.all("abandoned")

    def freeze(self) -> None:
        """Let others read and nothing else."""
        self._wire.execute(statement("freeze"))

    def load(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Put rows in as they are."""
        command = self.compose("load", table=table, columns=", ".join(columns))
        records = [dict(zip(columns, row, strict=True)) for row in rows]
        self._wire.execute(command, {"rows": msgspec.json.encode(records).decode()})

    def renumber(self, newest: int) -> None:
        """Go on counting where the rows end, and the moves at this number."""
        self.value("renumber", newest=newest)

    def damage(self) -> list[str]:
        """Rows that point to nothing."""
        return [
            f"a row of {row[0]} points to a task that is not there" for row in self.all("orphans")
        ]

    def write_moves(self) -> None:
        """Write the noted lines of history."""
        if self._moves:
            query = "insert_ends" if self._has_ends() else "insert_history"
            self._wire.execute(statement(query), self._noted_moves())

    def bump(self, changes: list[tuple[str, int, int]]) -> None:
        """Change tallies, and write the moves that belong to that."""
        if self._has_ends():
            self.write_moves()
        if changes and self._moves:
            values = {**self._noted_moves(), **self._tallied(changes)}
            self._wire.execute(statement("moves_and_tallies"), values)
        elif changes:
            self._wire.execute(statement("bump_tally"), self._tallied(changes))
        else:
            self.write_moves()

    def settle(self) -> None:
        """Write what was noted, all at once."""
        self.bump(self.changes())

    def _noted_moves(self) -> dict[str, list[Any]]:
        self.rings = self.rings or any(move[2] == Status.PENDING for move in self._moves)
        columns = zip_longest(*self._moves)
        names = (*_MOVE, *_ATTEMPT) if self._has_ends() else _MOVE
        self._moves = []
        return dict(zip(names, map(list, columns), strict=True))

    def _has_ends(self) -> bool:
        return any(len(move) > MOVE_COLUMNS for move in self._moves)

    def _tallied(self, changes: list[tuple[str, int, int]]) -> dict[str, Any]:
        """Of our own shard, in one order, so that nobody waits in a circle."""
        statuses, levels, amounts = (list(each) for each in zip(*sorted(changes), strict=True))
        return {"shard": self._shard, "statuses": statuses, "levels": levels, "changes": amounts}


@cache
def statement(name: str) -> str:
    """A named query."""
    return QUERIES.sql(name)


@cache
def _candidates(fits: str, window: int) -> str:
    within = {"fits": fits, "window": str(window)}
    heads = {f"head_{level}": QUERIES.sql("head", level=str(level), **within) for level in range(4)}
    return QUERIES.sql("candidates", **within, **heads)
