"""The SQLite store: durable against power loss, fast because commits are shared."""

import os
from collections.abc import Coroutine, Sequence
from typing import Any

from acode.clock import Clock
from acode.model.task import Submission
from acode.store.base import Added, Ring, Seen
from acode.store.sql.store import AGEING_MS, SqlStore
from acode.store.sql.writer import DirectWriter
from acode.store.sqlite.book import SqliteBook
from acode.store.sqlite.connection import connect, version_of


class SqliteStore(SqlStore):
    """One file, any number of processes."""

    settles_later = True
    _reader: SqliteBook
    _book: SqliteBook

    @classmethod
    def open(
        cls, path: str, clock: Clock, *, ageing_ms: int = AGEING_MS, grouped: bool = True
    ) -> "SqliteStore":
        """Open or make the file.

        Grouped: a thread of its own commits whatever waits at once, another one reads. Otherwise
        everything happens in the calling thread and no coroutine ever suspends.
        """
        book = SqliteBook(path, connect(path), clock, ageing_ms)
        if not grouped:
            return cls(book, book, DirectWriter(book), None)
        from concurrent.futures import ThreadPoolExecutor

        from acode.store.sql.group import GroupWriter

        reader = SqliteBook(path, connect(path, readonly=True), clock, ageing_ms)
        return cls(reader, book, GroupWriter(book), ThreadPoolExecutor(1, "acode-reader"))

    def add(
        self,
        submissions: Sequence[Submission],
        *,
        actor: str,
        queue_size: int,
        seen: Seen | None = None,
        ring: Ring | None = None,
    ) -> Coroutine[Any, Any, list[Added]]:
        """Store tasks, all or none."""
        if self._readers is None and not self._closed:
            self._book.rehearse_addition()
        return super().add(submissions, actor=actor, queue_size=queue_size, seen=seen, ring=ring)

    async def backup(self, path: str) -> None:
        """Copy the store to a new file while it is in use."""
        from acode.store.sqlite.backup import copy

        self._check_open()
        if self._readers is None:
            copy(self._reader.path, path)
            return
        import asyncio

        # Not in the thread of the reader: others want to read meanwhile.
        await asyncio.to_thread(copy, self._reader.path, path)

    def describe(self) -> dict[str, Any]:
        """Where the store is, how large, and how old its schema."""
        path = self._reader.path
        return {
            "path": path,
            "bytes": _size(path),
            "walBytes": _size(path + "-wal"),
            "schemaVersion": version_of(self._reader.connection),
        }


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
