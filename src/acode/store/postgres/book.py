"""The open database: transactions that are tried again, and a line that is made again."""

import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import psycopg
from psycopg import errors

from acode.clock import Clock, Deadline, RemoteClock, ticks
from acode.errors import AcodeError, StoreUnavailable
from acode.store.base import Added, Ring
from acode.store.postgres.adding import AtOnce, plain_additions
from acode.store.postgres.address import Address
from acode.store.postgres.connection import Line, connect, translated
from acode.store.postgres.transaction import Begun, PostgresTransaction, statement
from acode.store.postgres.wire import Wire
from acode.store.sql.intake import Addition
from acode.store.sql.rows import Row
from acode.store.sql.writer import Writes

SHARDS = 32
FATE_SECONDS = 10.0
"""How long whoever waits for a commit waits for a server that went away during it."""
TRIES = 20
FIRST_REST_SECONDS, LONGEST_REST_SECONDS = 0.1, 2.0
_AGAIN = (errors.DeadlockDetected, errors.SerializationFailure, errors.UniqueViolation)
"""Somebody else was quicker. Nothing was written, and the next try sees what they wrote."""


class PostgresBook:
    """One connection at a time, for one thread."""

    def __init__(
        self, address: Address, clock: Clock | None, ageing_ms: int, *, lasting: bool = False
    ) -> None:
        self.address = address
        self.clock = RemoteClock()
        self.shard = secrets.randbelow(SHARDS)
        self.name = secrets.token_hex(8)
        """By which our own rings are known."""
        self._own_clock = clock
        self._ageing_ms = ageing_ms
        self._lasting = lasting  # the line will see the queue grow
        self._line: Line | None = None
        self._rest = FIRST_REST_SECONDS
        self._not_before = 0.0
        self._trouble: AcodeError | None = None

    # The line.

    def line(self) -> Line:
        """The line, made again if it broke; not tried more often than makes sense."""
        if self._line is not None and not self._line.connection.closed:
            return self._line
        if self._trouble is not None and ticks() < self._not_before:
            raise self._trouble
        try:
            self._line = connect(self.address, self.clock)
        except AcodeError as error:
            self._trouble, self._not_before = error, ticks() + self._rest
            self._rest = min(LONGEST_REST_SECONDS, self._rest * 2)
            raise
        self._trouble, self._rest = None, FIRST_REST_SECONDS
        if self._lasting and self._line.straight:
            self._line.connection.execute(statement("keep_to_indexes").encode())
        return self._line

    def close(self) -> None:
        """Let go."""
        if self._line is not None:
            self._line.connection.close()

    def _hang_up(self) -> None:
        self.close()
        self._line = None

    # Writing.

    def sync(self) -> None:
        """The server has seen to that with the commit."""

    def tidy(self) -> None:
        """The server does that by itself."""

    def commit(
        self,
        writes: Writes,
        *,
        patient: bool = True,  # noqa: ARG002 -- nobody keeps us waiting
        rings: Iterable[Ring] = (),
    ) -> list[Sequence[Any]]:
        """Run writes in one transaction. Nobody waits for it, so it rings when it is over."""
        answers = self._insist(writes)
        for ring in rings:
            ring()
        return answers

    def _insist(self, writes: Writes) -> list[Sequence[Any]]:
        """Again if others were quicker or the line broke."""
        additions = plain_additions(writes)
        with translated(self.address):
            if additions and (added := self._add_at_once(additions)) is not None:
                answers = iter(added)
                return [[next(answers) for _ in requests] for _, requests in writes]
            for _ in range(TRIES):
                line = self.line()
                try:
                    return self._commit(line, writes)
                except _AGAIN as error:
                    last: psycopg.Error = error
                except psycopg.OperationalError as error:
                    if not line.connection.broken:
                        raise
                    last = error
                    self._hang_up()
            raise last

    def _commit(self, line: Line, writes: Writes) -> list[Sequence[Any]]:
        results: list[Sequence[Any]] = []
        xid = ""
        try:
            with line.wire.train():
                line.wire.execute(statement("begin"))
                tx, begun = self.begun(line.wire, "begun")
                results += [write(tx, requests) for write, requests in writes]
                tx.settle()
                xid = begun.xid
                line.wire.execute(statement("commit"))
                if tx.rings:
                    # Behind the commit: inside of it, those who ring would wait for each other.
                    line.wire.execute(statement("ring"), {"who": self.name})
        except psycopg.Error:
            if not line.connection.broken:
                self._hang_up()  # what was on its way behind it is not known to have come
                raise
            # Before its number was known nothing can have been committed.
            if not xid or not self._was_committed(xid):
                raise
        return results

    def _add_at_once(self, additions: list[Addition]) -> list[list[Added]] | None:
        """Add without looking; None if nothing was written, and somebody has to look."""
        line = self.line()
        whole = AtOnce(additions)
        try:
            with line.wire.train():
                tx, _ = self.begun(line.wire, "begun")
                written = whole.send(line.wire, tx.moment, self.shard)
                line.wire.sync()  # what was sent up to here is one transaction
                line.wire.execute(statement("ring"), {"who": self.name})
            return whole.answers if written.row() else None
        except _AGAIN:
            self._hang_up()
            return None
        except psycopg.Error:
            self._hang_up()
            if not line.connection.broken:
                raise
            return whole.answers if self._ask("are_there", ids=whole.ids) else None

    def _was_committed(self, xid: str) -> bool:
        """What became of a transaction whose end we did not hear; asked for as long as it takes."""
        deadline = Deadline(FATE_SECONDS)
        while True:
            self._hang_up()
            try:
                row = self._ask("fate", xid=xid)
            except (psycopg.OperationalError, StoreUnavailable) as error:
                row, trouble = ("unknown",), error
            else:
                trouble = StoreUnavailable(f"{self.address.shown}: a commit takes very long")
            if row is None or row[0] not in ("unknown", "in progress"):
                return row is not None and row[0] == "committed"
            if not deadline.rest(FIRST_REST_SECONDS):
                raise trouble

    def begun(self, wire: Wire, look: str) -> tuple[PostgresTransaction, Begun]:
        """A transaction at a moment by the server's clock, which nobody waits for."""
        moment = None if self._own_clock is None else self._own_clock.now()
        begun = Begun(wire.execute(statement(look)), self.clock, moment)
        return PostgresTransaction(wire, begun, self._ageing_ms, self.shard), begun

    def _ask(self, name: str, **parameters: Any) -> Row | None:
        """The first row of a query that stands alone."""
        wire = self.line().wire
        try:
            with wire.train():
                return wire.execute(statement(name), parameters).row()
        except psycopg.Error:
            self._hang_up()
            raise

    # Reading.

    def read(self, query: Callable[..., Any], *arguments: Any) -> Any:
        """Run a query on one consistent state."""
        return self._read("begin_read", query, *arguments)

    def read_on(self, query: Callable[..., Any], *arguments: Any) -> Any:
        """Run a query each of whose statements sees the newest state."""
        return self._read("begin_on", query, *arguments)

    def _read(self, begin: str, query: Callable[..., Any], *arguments: Any) -> Any:
        with translated(self.address):
            for again in (True, False):
                line = self.line()
                try:
                    return self._look(line, begin, query, *arguments)
                except psycopg.OperationalError:
                    if not line.connection.broken or not again:
                        raise
                    self._hang_up()
        raise StoreUnavailable(f"{self.address.shown}: the connection breaks again and again")

    def _look(self, line: Line, begin: str, query: Callable[..., Any], *arguments: Any) -> Any:
        try:
            with line.wire.train():
                line.wire.execute(statement(begin))
                tx, _ = self.begun(line.wire, "begun_to_read")
                found = query(tx, *arguments)
                line.wire.execute(statement("commit"))
        except psycopg.Error:
            if not line.connection.broken:
                self._hang_up()
            raise
        return found
