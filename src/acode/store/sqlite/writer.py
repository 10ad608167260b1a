"""The open file, and who writes to it: the calling thread, or the one in `group`."""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from acode.clock import Clock
from acode.errors import AcodeError
from acode.store.sqlite.connection import insist, transaction, translated
from acode.store.sqlite.transaction import Transaction

Write = Callable[[Transaction, Sequence[Any]], Sequence[Any]]
"""Does every request of one kind; a result that is an error is raised to its requester."""


class Writer(Protocol):
    """Runs writes durably."""

    async def write(self, write: Write, request: Any, *, quick: bool = False) -> Any:
        """Do one write; returns when it is on disk. Quick: it changes a few rows at most."""
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

    def commit(
        self, writes: Sequence[tuple[Write, Sequence[Any]]], *, patient: bool = True
    ) -> list[Sequence[Any]]:
        """Run writes in one transaction; without patience, not if another process writes."""
        with translated(self.path), transaction(self.connection, patient=patient):
            tx = Transaction(self.connection, self.clock.now(), self.ageing_ms)
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
            tx = Transaction(self.connection, self.clock.now(), self.ageing_ms)
            return query(tx, *arguments)
        finally:
            self.connection.execute("ROLLBACK")


class DirectWriter:
    """Writes in the calling thread: for short-lived programs. Its coroutines never suspend."""

    def __init__(self, book: Book) -> None:
        self._book = book

    async def write(self, write: Write, request: Any, *, quick: bool = False) -> Any:  # noqa: ARG002
        """Do one write in a transaction of its own."""
        result = self._book.commit([(write, [request])])[0][0]
        if isinstance(result, AcodeError):
            raise result
        return result

    def stop(self) -> None:
        """Nothing is outstanding."""
