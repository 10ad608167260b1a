"""The open file."""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from acode.clock import Clock
from acode.errors import AcodeError
from acode.store.base import Ring
from acode.store.sql.writer import Writes
from acode.store.sqlite.connection import empty_log, insist, transaction, translated
from acode.store.sqlite.log import Log
from acode.store.sqlite.transaction import SqliteTransaction


class SqliteBook:
    """The open file, ready for transactions."""

    def __init__(
        self, path: str, connection: sqlite3.Connection, clock: Clock, ageing_ms: int
    ) -> None:
        self.path = path
        self.connection = connection
        self.clock = clock
        self.ageing_ms = ageing_ms
        self._log = Log(path)
        self._rehearsed = False

    def commit(
        self, writes: Writes, *, patient: bool = True, rings: Iterable[Ring] = ()
    ) -> list[Sequence[Any]]:
        """Run writes in one transaction; without patience, not if another process writes.

        They are on disk after the next `sync`: the lock is let go before that, so that processes
        which write at once wait for the disk at once, and not for each other's wait.
        """
        with (
            translated(self.path),
            self._log.turn(patient=patient),
            transaction(self.connection, patient=patient),
        ):
            for ring in rings:
                ring()  # whoever hears it wakes up while we write, and then waits for the lock
            tx = SqliteTransaction(self.connection, self.clock.now(), self.ageing_ms)
            results = [write(tx, requests) for write, requests in writes]
            tx.settle()
            return results

    def rehearse_addition(self) -> None:
        """Get ready to add before the first commit, so that others wait less for it."""
        if not self._rehearsed:
            self.read(SqliteTransaction.rehearse_addition)
            self._rehearsed = True

    def sync(self) -> None:
        """Bring everything that is committed to the disk, whoever committed it."""
        self._log.sync()

    def tidy(self) -> None:
        """Empty the log now, or some commit has to; and begin it anew, which waits for the disk."""
        # If it cannot be done now, it is done some other time.
        with suppress(AcodeError), translated(self.path), self._log.turn(patient=False):
            empty_log(self.connection)

    def close(self) -> None:
        """Let go of the file."""
        self.connection.close()
        self._log.close()

    def read(self, query: Callable[..., Any], *arguments: Any) -> Any:
        """Run a query on one consistent state of the file."""
        with translated(self.path):
            return insist(lambda: self._read(query, *arguments))

    def _read(self, query: Callable[..., Any], *arguments: Any) -> Any:
        self.connection.execute("BEGIN")
        try:
            tx = SqliteTransaction(self.connection, self.clock.now(), self.ageing_ms)
            return query(tx, *arguments)
        finally:
            self.connection.execute("ROLLBACK")
