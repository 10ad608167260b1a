"""The SQLite store: durable against power loss, fast because commits are shared."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from acode.clock import Clock
from acode.errors import StoreUnusable
from acode.model.task import DeadLetter, Lease, Move, Record, Submission, Task
from acode.model.verdict import Report
from acode.store.base import Added, Claim, Counts, Seen, TaskQuery, Tidied
from acode.store.sqlite import reads, wishes
from acode.store.sqlite.attempts import Finish, finish
from acode.store.sqlite.claims import claim
from acode.store.sqlite.connection import connect, version_of
from acode.store.sqlite.intake import Addition, add
from acode.store.sqlite.wishes import StepValue, Wish, each
from acode.store.sqlite.writer import Book, Demand, DirectWriter, Write, Writer

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

AGEING_MS = 600_000
FEW = 10
"""Tasks that take no time worth speaking of."""

_cancel = each(wishes.cancel)
_retry = each(wishes.retry)
_drop = each(wishes.drop)
_pause = each(wishes.pause)
_save_step = each(wishes.save_step)
_archive = each(wishes.archive)
_forget_orphaned_steps = each(wishes.forget_orphaned_steps)


class SqliteStore:
    """One file, any number of processes."""

    settles_later = True

    def __init__(
        self, reader: Book, writer_book: Book, writer: Writer, readers: "ThreadPoolExecutor | None"
    ) -> None:
        self._reader = reader
        self._book = writer_book
        self._writer = writer
        self._readers = readers
        self._closed = False

    @classmethod
    def open(
        cls, path: str, clock: Clock, *, ageing_ms: int = AGEING_MS, grouped: bool = True
    ) -> "SqliteStore":
        """Open or make the file.

        Grouped: a thread of its own commits whatever waits at once, another one reads. Otherwise
        everything happens in the calling thread and no coroutine ever suspends.
        """
        book = Book(path, connect(path), clock, ageing_ms)
        if not grouped:
            return cls(book, book, DirectWriter(book), None)
        from concurrent.futures import ThreadPoolExecutor

        from acode.store.sqlite.group import GroupWriter

        reader = Book(path, connect(path, readonly=True), clock, ageing_ms)
        return cls(reader, book, GroupWriter(book), ThreadPoolExecutor(1, "acode-reader"))

    async def add(
        self,
        submissions: Sequence[Submission],
        *,
        actor: str,
        queue_size: int,
        seen: Seen | None = None,
    ) -> list[Added]:
        """Store tasks, all or none."""
        addition = Addition(submissions, actor, queue_size)
        demand = Demand(add, addition, quick=len(submissions) <= FEW, seen=seen)
        done: list[Added] = await self._do(demand)
        return done

    async def cancel(self, task_id: str, *, actor: str, force: bool = False) -> Task:
        """Cancel a waiting task, or write the wish that a running one should end."""
        task: Task = await self._write(_cancel, Wish(task_id, actor, force))
        return task

    async def retry(self, task_id: str, *, actor: str, reset_attempts: bool = False) -> Task:
        """Queue a failed or cancelled task again."""
        task: Task = await self._write(_retry, Wish(task_id, actor, reset_attempts))
        return task

    async def drop(self, task_id: str, *, actor: str) -> Task:
        """Give a dead letter up."""
        task: Task = await self._write(_drop, Wish(task_id, actor))
        return task

    async def pause(self, paused: bool, *, actor: str) -> bool:
        """Hold every claim, or let them go on."""
        changed: bool = await self._write(_pause, (paused, actor))
        return changed

    async def claim(self, wanted: Claim) -> list[Lease]:
        """Lease the most urgent ready tasks."""
        demand = Demand(claim, wanted, quick=wanted.limit <= FEW, early=True)
        leases: list[Lease] = await self._do(demand)
        return leases

    async def finish(self, report: Report, then: Claim | None = None) -> list[Lease]:
        """Write the end of an attempt and claim what is next."""
        demand = Demand(finish, Finish(report, then), quick=True, early=True)
        leases: list[Lease] = await self._do(demand)
        return leases

    async def settled(self) -> None:
        """Wait until everything that was written before is on disk."""
        self._check_open()
        await self._writer.settle()

    async def save_step(self, task_id: str, token: str, step: str, value: Any) -> None:
        """Keep the value of a finished step."""
        await self._write(_save_step, StepValue(task_id, token, step, value))

    async def leases(self) -> list[Lease]:
        """Every lease that is out."""
        found: list[Lease] = await self._read(reads.leases)
        return found

    async def wishes(self) -> list[Task]:
        """Running tasks that a user wants to end."""
        found: list[Task] = await self._read(reads.wishes)
        return found

    async def resolve(self, prefix: str) -> str:
        """The one id that begins so."""
        found: str = await self._read(reads.resolve, prefix)
        return found

    async def get(self, task_id: str) -> Task:
        """One task."""
        task: Task = await self._tell(reads.get, task_id)
        return task

    async def record(self, task_id: str) -> Record:
        """One task with its attempts and its history."""
        record: Record = await self._tell(reads.record, task_id)
        return record

    async def find(self, query: TaskQuery) -> list[Task]:
        """Tasks that fit."""
        # A gateway lists often, and must not wait for the disk each time: who wants to be sure
        # asks for the task.
        read = self._tell if self._readers is None else self._read
        found: list[Task] = await read(reads.find, query)
        return found

    async def moves(self, since: int, limit: int = 1000) -> list[Move]:
        """Moves of all tasks after that sequence number."""
        found: list[Move] = await self._tell(reads.moves, (since, limit))
        return found

    async def newest_move(self) -> int:
        """The sequence number of the last move."""
        newest: int = await self._read(reads.newest_move)
        return newest

    async def arrivals(self, since: int, until: int) -> int:
        """How many tasks were added after one move and up to another."""
        count: int = await self._read(reads.arrivals, (since, until))
        return count

    async def counts(self) -> Counts:
        """The queue at a glance."""
        counts: Counts = await self._read(reads.counts)
        return counts

    async def dead_letters(self, task_id: str | None = None) -> list[DeadLetter]:
        """Tasks that failed for good, the newest first."""
        letters: list[DeadLetter] = await self._tell(reads.dead_letters, task_id)
        return letters

    async def check(self) -> list[str]:
        """Everything that is wrong with the file."""
        wrong: list[str] = await self._read(reads.check)
        return wrong

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

    async def tidy(self, *, finished_before: int, steps_before: int) -> Tidied:
        """Archive old finished tasks; remove old checkpoints of finished ones."""
        archived = 0
        while chunk := (await self._write(_archive, finished_before)).archived:
            archived += chunk
        forgotten: Tidied = await self._write(_forget_orphaned_steps, steps_before)
        return Tidied(archived=archived, checkpoints=forgotten.checkpoints)

    def describe(self) -> dict[str, Any]:
        """Where the store is, how large, and how old its schema."""
        path = self._reader.path
        return {
            "path": path,
            "bytes": _size(path),
            "walBytes": _size(path + "-wal"),
            "schemaVersion": version_of(self._reader.connection),
        }

    async def close(self) -> None:
        """Let go of the file; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        if self._readers is None:
            self._book.close()
            return
        import asyncio

        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._writer.stop()
        if self._readers is not None:
            self._readers.shutdown()
        self._reader.close()
        self._book.close()

    async def _write(self, write: Write, request: Any) -> Any:
        return await self._do(Demand(write, request))

    async def _do(self, demand: Demand) -> Any:
        self._check_open()
        return await self._writer.write(demand)

    async def _tell(self, query: Callable[..., Any], *arguments: Any) -> Any:
        """What is told of tasks is on disk: nobody hears of an end that a power cut undoes."""

        def read() -> Any:
            found = self._reader.read(query, *arguments)
            self._reader.sync()
            return found

        return await self._in_reader(read)

    async def _read(self, query: Callable[..., Any], *arguments: Any) -> Any:
        return await self._in_reader(self._reader.read, query, *arguments)

    async def _in_reader(self, function: Callable[..., Any], *arguments: Any) -> Any:
        self._check_open()
        if self._readers is None:
            return function(*arguments)
        import asyncio

        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, function, *arguments)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnusable("the store is closed")


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
