"""The store on SQL: everything that does not depend on the engine."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from acode.clock import Clock
from acode.errors import StoreUnusable
from acode.model.host import Host, HostState
from acode.model.task import DeadLetter, Lease, Move, Push, Record, Submission, Task
from acode.model.verdict import Report
from acode.store.base import Added, Claim, Counts, Ring, Seen, TaskQuery, Tidied
from acode.store.sql import hosts, reads, wishes
from acode.store.sql.attempts import Finish, finish
from acode.store.sql.claims import claim
from acode.store.sql.hosts import Joining, Renewal
from acode.store.sql.intake import Addition, add
from acode.store.sql.wishes import Pushed, StepValue, Wish, each
from acode.store.sql.writer import Book, Demand, Write, Writer

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from acode.store.sql.moving import Moved, Progress

AGEING_MS = 600_000
FEW = 10
"""Tasks that take no time worth speaking of."""

_cancel = each(wishes.cancel)
_retry = each(wishes.retry)
_drop = each(wishes.drop)
_pause = each(wishes.pause)
_save_step = each(wishes.save_step)
_pushed = each(wishes.pushed)
_archive = each(wishes.archive)
_forget_orphaned_steps = each(wishes.forget_orphaned_steps)
_join = each(hosts.join)
_renew = each(hosts.renew)
_expire = each(hosts.expire)
_leave = each(hosts.leave)


class SqlStore(ABC):
    """Any number of processes share it."""

    settles_later = False
    hasty = False
    """Whether it tells what may not be on disk yet."""

    def __init__(
        self, reader: Book, writer_book: Book, writer: Writer, readers: "ThreadPoolExecutor | None"
    ) -> None:
        self._reader = reader
        self._book = writer_book
        self._writer = writer
        self._readers = readers
        self._closed = False

    @property
    def clock(self) -> Clock:
        """The store's own clock; a server may reckon differently from this machine."""
        return self._book.clock

    async def add(
        self,
        submissions: Sequence[Submission],
        *,
        actor: str,
        queue_size: int,
        seen: Seen | None = None,
        ring: Ring | None = None,
    ) -> list[Added]:
        """Store tasks, all or none."""
        addition = Addition(submissions, actor, queue_size)
        demand = Demand(add, addition, quick=len(submissions) <= FEW, seen=seen, ring=ring)
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
        if self.settles_later:
            await self._writer.settle()

    async def save_step(self, task_id: str, token: str, step: str, value: Any) -> None:
        """Keep the value of a finished step."""
        await self._write(_save_step, StepValue(task_id, token, step, value))

    async def pushed(self, task_id: str, number: int, push: Push) -> None:
        """Note what became of the branch of a completed attempt."""
        await self._write(_pushed, Pushed(task_id, number, push))

    async def leases(self, host_id: str | None = None) -> list[Lease]:
        """Every lease that is out, or those of one host."""
        found: list[Lease] = await self._read(reads.leases, host_id)
        return found

    async def join(self, host: Host, lease_ms: int) -> None:
        """Take part as this host."""
        await self._write(_join, Joining(host, lease_ms))

    async def renew(self, host_id: str, pool: Any = None) -> frozenset[str]:
        """Prolong the host's lease; the tokens that it still holds."""
        held: frozenset[str] = await self._write(_renew, Renewal(host_id, pool))
        return held

    async def expire(self, host_id: str) -> list[Lease]:
        """Take over what silent hosts hold."""
        leases: list[Lease] = await self._write(_expire, host_id)
        return leases

    async def leave(self, host_id: str) -> None:
        """Take part no more."""
        await self._write(_leave, host_id)

    async def hosts(self) -> list[HostState]:
        """Who takes part."""
        found: list[HostState] = await self._read(hosts.hosts)
        return found

    async def listen(self, ring: Callable[[], None]) -> None:  # noqa: ARG002 -- nobody does
        """The doors ring themselves."""
        self._check_open()

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
        found: list[Task] = await self._tell(reads.find, query)
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

    async def tidy(self, *, finished_before: int, steps_before: int) -> Tidied:
        """Archive old finished tasks; remove old checkpoints of finished ones."""
        archived = 0
        while chunk := (await self._write(_archive, finished_before)).archived:
            archived += chunk
        forgotten: Tidied = await self._write(_forget_orphaned_steps, steps_before)
        return Tidied(archived=archived, checkpoints=forgotten.checkpoints)

    def move_to(self, target: "SqlStore", progress: "Progress") -> "Moved":
        """Copy everything to an empty store, in the calling thread."""
        from acode.store.sql.moving import move

        self._check_open()
        return move(self._book, target._book, progress)

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Where the store is, how large, and how old its schema."""

    @abstractmethod
    async def backup(self, path: str) -> None:
        """Copy the store to a new file while it is in use."""

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

    def _write(self, write: Write, request: Any) -> Awaitable[Any]:
        return self._do(Demand(write, request))

    def _do(self, demand: Demand) -> Awaitable[Any]:
        self._check_open()
        return self._writer.write(demand)

    async def _tell(self, query: Callable[..., Any], *arguments: Any) -> Any:
        """What is told of tasks is on disk: nobody hears of an end that a power cut undoes."""

        def read() -> Any:
            found = self._reader.read(query, *arguments)
            self._reader.sync()
            return found

        if self.hasty or not self.settles_later:
            return await self._read(query, *arguments)
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
