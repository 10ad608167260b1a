"""The open file."""

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from acode.clock import Clock
from acode.errors import StoreUnusable
from acode.store.sql.writer import Writes
from acode.store.sqlite.connection import insist, transaction, translated
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
        self._level = "FULL"
        self._log: int | None = None

    def commit_early(self, writes: Writes) -> list[Sequence[Any]]:
        """Run writes in one transaction, and wait for the disk only when the lock is let go.

        So processes that write at once wait for the disk at once, and not for each other's wait.
        """
        if self._log is None and not self._open_log():
            return self.commit(writes)
        results = self._commit(writes, "NORMAL")
        self._sync()
        return results

    def _open_log(self) -> bool:
        """Open the log of the commits; there is none in memory."""
        # It stays the same file as long as the store is open. SQLite has no locks on it, so that
        # to close it takes none away.
        with suppress(FileNotFoundError):
            self._log = os.open(f"{os.path.realpath(self.path)}-wal", os.O_RDONLY | os.O_CLOEXEC)
        return self._log is not None

    def _sync(self) -> None:
        if self._log is not None:
            try:
                os.fdatasync(self._log)
            except OSError as error:
                what = f"{self.path} cannot be brought to the disk: {error.strerror}"
                raise StoreUnusable(what) from error

    def close(self) -> None:
        """Let go of the file."""
        self.connection.close()
        if self._log is not None:
            os.close(self._log)
            self._log = None

    def commit(self, writes: Writes, *, patient: bool = True) -> list[Sequence[Any]]:
        """Run writes in one transaction; without patience, not if another process writes."""
        return self._commit(writes, "FULL", patient=patient)

    def _commit(self, writes: Writes, level: str, *, patient: bool = True) -> list[Sequence[Any]]:
        if self._level != level:
            self.connection.execute(f"PRAGMA synchronous = {level}")
            self._level = level
        with translated(self.path), transaction(self.connection, patient=patient):
            tx = SqliteTransaction(self.connection, self.clock.now(), self.ageing_ms)
            results = [write(tx, requests) for write, requests in writes]
            tx.settle()
            return results

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
