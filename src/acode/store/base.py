"""The contract of every store, in the engine's words.

Doors write wishes (`add`, `cancel`, `retry`, `drop`, `pause`), the engine writes facts
(`claim`, `finish`, `save_step`), everybody reads. A write is acknowledged when it is durable; only
claims and ends are there for the engine at once, which tells nobody before `settled`.

Where several machines share a store, each daemon is a host: it joins, renews its lease in time,
and claims in its own name. Time is the store's own clock, so that no machine's clock matters.
What a silent host held goes to whoever notices first, under new tokens: what the silent one
writes later is refused like every stale token.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from acode.model.host import Host, HostState
from acode.model.priority import Priority
from acode.model.state import Status
from acode.model.task import (
    DeadLetter,
    Lease,
    Move,
    Push,
    Record,
    Submission,
    Task,
)
from acode.model.verdict import Report

Assign = Callable[[Sequence[Task]], Sequence[str | None]]
"""Gives each task to a worker: ids in the tasks' order, None for a task that is left alone.

Pure; it runs inside the transaction.
"""


class Circuit(NamedTuple):
    """What a circuit breaker guards: one kind of task in one workstream."""

    kind: str
    workstream_id: str | None


class WholeKind(NamedTuple):
    """One kind of task in every workstream."""

    kind: str


class Claim(NamedTuple):
    """A wish for work: at most `limit` tasks, none from a held circuit, for these workers."""

    limit: int
    assign: Assign
    held: Collection[Circuit | WholeKind] = ()
    host_id: str | None = None
    """Who claims. A host that has not joined, or has lost its lease, gets nothing; None is for a
    pool that has the store to itself."""


class Added(NamedTuple):
    """What `add` did with one submission; `existed` when its key was there already."""

    id: str
    status: Status
    existed: bool = False


Seen = Callable[[Sequence[Added]], object]
Ring = Callable[[], object]
"""Hears what `add` did."""

BY_STATUS = (
    Status.RUNNING,
    Status.PENDING,
    Status.BLOCKED,
    Status.FAILED,
    Status.COMPLETED,
    Status.CANCELLED,
)
"""The order of a listing by status: what moves comes first."""


class Sort(msgspec.Struct, frozen=True):
    """The order of a listing."""

    by: str = "created"
    """created | priority | status"""
    reverse: bool = False


class TaskQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which tasks to list."""

    statuses: tuple[Status, ...] = ()
    priority: Priority | None = None
    workstream_id: str | None = None
    text: str | None = None
    """Only those whose id begins so, or that have it in title, command, arguments or workstream."""
    limit: int = 50
    offset: int = 0
    sort: Sort = Sort()


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """The queue at a glance."""

    by_status: dict[Status, int]
    pending_by_priority: dict[Priority, int]
    paused: bool
    oldest_ready_at: int | None
    """Since when the longest waiting pending task could have run; may lie in the future."""

    @property
    def waiting(self) -> int:
        """Tasks that wait: pending and blocked."""
        return self.by_status[Status.PENDING] + self.by_status[Status.BLOCKED]


class Tidied(msgspec.Struct, frozen=True, kw_only=True):
    """What `tidy` put away."""

    archived: int = 0
    checkpoints: int = 0


class Store(Protocol):
    """The durable truth. Every method is safe to repeat; a stale token changes nothing."""

    settles_later: bool
    """Whether a claim or an end can be undone by a power cut until `settled`."""

    async def add(
        self,
        submissions: Sequence[Submission],
        *,
        actor: str,
        queue_size: int,
        seen: Seen | None = None,
        ring: Ring | None = None,
    ) -> list[Added]:
        """Store tasks, all or none. A key that exists already gives the task that has it.

        `seen` is called as soon as others can see them, a moment before they are durable; `ring`
        maybe before that, when whoever claims from now on finds them, if need be by waiting. Both
        are called in the middle of it and must take no time.
        """
        ...

    async def cancel(self, task_id: str, *, actor: str, force: bool = False) -> Task:
        """Cancel a waiting task, or write the wish that a running one should end."""
        ...

    async def retry(self, task_id: str, *, actor: str, reset_attempts: bool = False) -> Task:
        """Queue a failed or cancelled task again, going on after its finished steps."""
        ...

    async def drop(self, task_id: str, *, actor: str) -> Task:
        """Give a dead letter up: the task is cancelled for good."""
        ...

    async def pause(self, paused: bool, *, actor: str) -> bool:
        """Hold every claim, or let them go on. Says whether that changed anything."""
        ...

    async def claim(self, claim: Claim) -> list[Lease]:
        """Lease the most urgent ready tasks, each for one attempt.

        Like the end of an attempt it can be undone by a power cut until `settled`.
        """
        ...

    async def finish(self, report: Report, then: Claim | None = None) -> list[Lease]:
        """Write the end of an attempt and, in the same commit, claim what is next."""
        ...

    async def settled(self) -> None:
        """Wait until everything that was written before is durable."""
        ...

    async def save_step(self, task_id: str, token: str, step: str, value: Any) -> None:
        """Keep the value of a finished step for the attempts to come."""
        ...

    async def pushed(self, task_id: str, number: int, push: Push) -> None:
        """Note what became of the branch of a completed attempt; nothing if it is not the last."""
        ...

    async def leases(self, host_id: str | None = None) -> list[Lease]:
        """Every lease that is out, or those of one host: what a new daemon has to look after."""
        ...

    async def join(self, host: Host, lease_ms: int) -> None:
        """Take part as this host, or go on as it after a restart: what it holds stays its own."""
        ...

    async def renew(self, host_id: str, pool: Any = None) -> frozenset[str]:
        """Prolong the host's lease by what it joined with; the tokens that it still holds.

        `pool` is published for the others, None leaves what was published. Raises LeaseLost if
        the host's leases have gone to others: it has to end all that it runs, and join again.
        """
        ...

    async def expire(self, host_id: str) -> list[Lease]:
        """Take over what silent hosts hold: their leases, each with a new token, now this host's.

        Every lease goes to one caller only, who then finishes it as lost. One who is gone before
        that has fallen silent too, and the next one takes over from it.
        """
        ...

    async def leave(self, host_id: str) -> None:
        """Take part no more. What is still leased stays listed until its time is up."""
        ...

    async def hosts(self) -> list[HostState]:
        """Who takes part, and who was lost lately, in the order in which they first joined."""
        ...

    async def listen(self, ring: Callable[[], None]) -> None:
        """Have `ring` called in this loop when somebody elsewhere wrote what a pool waits for.

        A lost ring is possible, so polling goes on. Does nothing where the doors ring themselves.
        """
        ...

    async def wishes(self) -> list[Task]:
        """Running tasks that a user wants to end."""
        ...

    async def resolve(self, prefix: str) -> str:
        """The one id that begins so."""
        ...

    async def get(self, task_id: str) -> Task:
        """One task."""
        ...

    async def record(self, task_id: str) -> Record:
        """One task with its attempts and its history, archived ones too."""
        ...

    async def find(self, query: TaskQuery) -> list[Task]:
        """Tasks that fit."""
        ...

    async def moves(self, since: int, limit: int = 1000) -> list[Move]:
        """Moves of all tasks after that sequence number, oldest first."""
        ...

    async def newest_move(self) -> int:
        """The sequence number of the last move, at the same price whatever their number."""
        ...

    async def arrivals(self, since: int, until: int) -> int:
        """How many tasks were added after one move and up to another."""
        ...

    async def counts(self) -> Counts:
        """The queue at a glance, at the same price whatever its size."""
        ...

    async def dead_letters(self, task_id: str | None = None) -> list[DeadLetter]:
        """Tasks that failed for good, the newest first; or the one of this task."""
        ...

    async def check(self) -> list[str]:
        """Everything that is wrong with the store, in words."""
        ...

    async def backup(self, path: str) -> None:
        """Copy the store to a new file while it is in use."""
        ...

    async def tidy(self, *, finished_before: int, steps_before: int) -> Tidied:
        """Archive old finished tasks; remove old checkpoints whose task will not use them."""
        ...

    async def close(self) -> None:
        """Let go of everything. Acknowledged writes are on disk already."""
        ...
