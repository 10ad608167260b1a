"""The PostgreSQL store: one queue for several machines."""

from collections.abc import Callable
from typing import Any

from acode.clock import Clock
from acode.errors import UsageError
from acode.model.task import Move
from acode.store.postgres import follow
from acode.store.postgres.address import parse
from acode.store.postgres.book import PostgresBook
from acode.store.sql.store import AGEING_MS, SqlStore
from acode.store.sql.writer import DirectWriter


class PostgresStore(SqlStore):
    """One database, any number of processes on any number of machines."""

    _reader: PostgresBook
    _book: PostgresBook

    @classmethod
    def open(
        cls,
        url: str,
        clock: Clock | None = None,
        *,
        ageing_ms: int = AGEING_MS,
        grouped: bool = True,
    ) -> "PostgresStore":
        """Open the database, and make its schema if it has none; time is the server's.

        Grouped: a thread of its own commits whatever waits at once, another one reads. Otherwise
        everything happens in the calling thread and no coroutine ever suspends.
        """
        address = parse(url)
        book = PostgresBook(address, clock, ageing_ms, lasting=grouped)
        book.line()
        if not grouped:
            return cls(book, book, DirectWriter(book), None)
        from concurrent.futures import ThreadPoolExecutor

        from acode.store.sql.group import GroupWriter

        reader = PostgresBook(address, clock, ageing_ms)
        writer = GroupWriter(book, here=False)
        return cls(reader, book, writer, ThreadPoolExecutor(1, "acode-reader"))

    async def moves(self, since: int, limit: int = 1000) -> list[Move]:
        """Moves of all tasks after that sequence number, none of which can come later."""
        found: list[Move] = await self._in_reader(
            self._reader.read_on, follow.moves, (since, limit)
        )
        return found

    async def newest_move(self) -> int:
        """The number up to which every move can be seen."""
        newest: int = await self._in_reader(self._reader.read_on, follow.settled)
        return newest

    async def listen(self, ring: Callable[[], None]) -> None:
        """Have the bell rung by everybody who shares the database."""
        from acode.store.postgres.bell import Listener

        self._check_open()
        self._listener = Listener(self._book.address, self._book.name, ring)
        await self._listener.start()

    async def backup(self, path: str) -> None:
        """There are tools for that, which do it better."""
        self._check_open()
        raise UsageError(
            f"a queue in PostgreSQL is not copied to {path}",
            f"pg_dump --schema=acode --format=custom --file=… {self._book.address.shown}",
        )

    def describe(self) -> dict[str, Any]:
        """Where the store is, how large, and how old its schema."""
        return {
            "path": self._reader.address.shown,
            "bytes": self._reader.read(lambda tx: tx.value("size")),
            "schemaVersion": self._reader.read(lambda tx: tx.value("schema_version")),
        }

    async def close(self) -> None:
        """Let go of the database; safe to call twice."""
        if (listener := getattr(self, "_listener", None)) is not None:
            listener.stop()
        await super().close()
