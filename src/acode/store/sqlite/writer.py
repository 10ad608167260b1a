"""The open file, and who writes to it: the calling thread, or the one in `group`."""

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, cast

from acode.clock import Clock
from acode.errors import AcodeError, StoreUnusable
from acode.store.sqlite.connection import insist, transaction, translated
from acode.store.sqlite.transaction import Transaction

Write = Callable[[Transaction, Sequence[Any]], Sequence[Any]]
"""Does every request of one kind; a result that is an error is raised to its requester."""
Writes = Sequence[tuple[Write, Sequence[Any]]]


class Demand(NamedTuple):
    """One write that somebody waits for."""

    write: Write
    request: Any
    quick: bool = False
    """It changes a few rows at most."""
    early: bool = False
    """Whoever asked goes on when it is committed, and not only when it is on disk."""
    seen: Callable[[Any], object] | None = None
    """Hears what came of it as soon as it is committed."""


class Writer(Protocol):
    """Runs writes. What is committed is seen by others; then it is brought to the disk."""

    async def write(self, demand: Demand) -> Any:
        """Do one write; returns when it is on disk, or when it is committed if that is enough."""
        ...

    async def settle(self) -> None:
        """Returns when everything that was committed before is on disk."""
        ...

    def stop(self) -> None:
        """Finish what was asked for and let go."""
        ...


class Book:
    """The open file, ready for transactions."""

    def __init__(
        self, path: str, connection: sqlite3.Connection, clock: Clock, ageing_ms: int
    ) -> None:
        self.path = path
        self.connection = connection
        self.clock = clock
        self.ageing_ms = ageing_ms
        self._log: int | None = None

    def commit(self, writes: Writes, *, patient: bool = True) -> list[Sequence[Any]]:
        """Run writes in one transaction; without patience, not if another process writes.

        They are on disk after the next `sync`: the lock is let go before that, so that processes
        which write at once wait for the disk at once, and not for each other's wait.
        """
        with translated(self.path), transaction(self.connection, patient=patient):
            tx = Transaction(self.connection, self.clock.now(), self.ageing_ms)
            results = [write(tx, requests) for write, requests in writes]
            tx.settle()
            return results

    def sync(self) -> None:
        """Bring everything that is committed to the disk, whoever committed it."""
        if self._log is None and not self._open_log():
            return
        try:
            os.fdatasync(cast("int", self._log))
        except OSError as error:
            what = f"{self.path} cannot be brought to the disk: {error.strerror}"
            raise StoreUnusable(what) from error

    def _open_log(self) -> bool:
        """Open the log of the commits; there is none in memory."""
        # It stays the same file as long as the store is open. SQLite has no locks on it, so that
        # to close it takes none away.
        with suppress(FileNotFoundError):
            self._log = os.open(f"{os.path.realpath(self.path)}-wal", os.O_RDONLY | os.O_CLOEXEC)
        return self._log is not None

    def close(self) -> None:
        """Let go of the file."""
        self.connection.close()
        if self._log is not None:
            os.close(self._log)
            self._log = None

    def read(self, query: Callable[..., Any], *arguments: Any) -> Any:
        """Run a query on one consistent state of the file."""
        with translated(self.path):
            return insist(lambda: self._read(query, *arguments))

    def _read(self, query: Callable[..., Any], *arguments: Any) -> Any:
        self.connection.execute("BEGIN")
        try:
            tx = Transaction(self.connection, self.clock.now(), self.ageing_ms)
            return query(tx, *arguments)
        finally:
            self.connection.execute("ROLLBACK")


class DirectWriter:
    """Writes in the calling thread: for short-lived programs. Its coroutines never suspend."""

    def __init__(self, book: Book) -> None:
        self._book = book

    async def write(self, demand: Demand) -> Any:
        """Do one write in a transaction of its own."""
        result = self._book.commit([(demand.write, [demand.request])])[0][0]
        if isinstance(result, AcodeError):
            raise result
        if demand.seen is not None:
            demand.seen(result)
        if not demand.early:
            self._book.sync()
        return result

    async def settle(self) -> None:
        """Wait for the disk."""
        self._book.sync()

    def stop(self) -> None:
        """Nothing is outstanding."""
