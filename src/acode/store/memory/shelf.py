"""What the memory store holds, and everybody who only looks at it."""

from collections import Counter
from collections.abc import Iterable

from acode.clock import Clock
from acode.errors import AmbiguousId, TaskNotFound
from acode.ids import is_prefix, normalise
from acode.model.priority import Priority
from acode.model.state import Status
from acode.model.task import DeadLetter, Lease, Move, Record, Task
from acode.store.base import Counts, TaskQuery
from acode.store.memory.entry import Entry
from acode.store.memory.hosts import Hosting
from acode.store.memory.listing import fits, place
from acode.store.memory.ready import ReadyTasks


class Shelf(Hosting):
    """The tasks, and what is known of them."""

    def __init__(self, clock: Clock, ageing_ms: int) -> None:
        super().__init__(clock)
        self._wished: set[str] = set()
        self._entries: dict[str, Entry] = {}
        self._archive: dict[str, Record] = {}
        self._keys: dict[str, str] = {}
        self._letters: dict[str, DeadLetter] = {}
        self._ready = ReadyTasks(ageing_ms)
        self._counts = {status: [0] * len(Priority) for status in Status}
        """How many there are, by status and level."""
        self._paused_by: str | None = None
        self._seq = 0

    async def leases(self, host_id: str | None = None) -> list[Lease]:
        """Every lease that is out, or those of one host."""
        self._check_open()
        return [
            Lease(
                task=entry.task,
                number=entry.task.last_attempt,
                token=entry.token,
                worker_id=entry.task.worker_id or "",
            )
            for entry in self._entries.values()
            if entry.token is not None and host_id in (None, entry.task.host_id)
        ]

    async def wishes(self) -> list[Task]:
        """Running tasks that a user wants to end."""
        self._check_open()
        wished = sorted(self._known(self._wished), key=lambda entry: entry.seq)
        return [entry.task for entry in wished]

    async def resolve(self, prefix: str) -> str:
        """The one id that begins so."""
        self._check_open()
        low = normalise(prefix)
        if not is_prefix(low):
            raise TaskNotFound(f"{prefix!r} is not an id or the beginning of one")
        found = [
            id_ for ids in (self._entries, self._archive) for id_ in ids if id_.startswith(low)
        ]
        if not found:
            raise TaskNotFound(f"no task has an id that begins with {low}")
        if len(found) > 1:
            raise AmbiguousId(f"more than one task has an id that begins with {low}")
        return found[0]

    async def get(self, task_id: str) -> Task:
        """One task."""
        return (await self.record(task_id)).task

    async def record(self, task_id: str) -> Record:
        """One task with its attempts and its history."""
        self._check_open()
        if task_id in self._archive:
            return self._archive[task_id]
        entry = self._entry(task_id)
        return entry.record()

    async def find(self, query: TaskQuery) -> list[Task]:
        """Tasks that fit."""
        self._check_open()
        fitting = [entry for entry in self._entries.values() if fits(entry.task, query)]
        fitting.sort(key=lambda entry: place(entry, query.sort.by), reverse=query.sort.reverse)
        return [entry.task for entry in fitting[query.offset : query.offset + query.limit]]

    async def moves(self, since: int, limit: int = 1000) -> list[Move]:
        """Moves of all tasks after that sequence number."""
        self._check_open()
        moves = [m for entry in self._entries.values() for m in entry.moves if m.seq > since]
        return sorted(moves, key=lambda move: move.seq)[:limit]

    async def newest_move(self) -> int:
        """The sequence number of the last move."""
        self._check_open()
        return self._seq

    async def arrivals(self, since: int, until: int) -> int:
        """How many tasks were added after one move and up to another."""
        self._check_open()
        added = [entry.moves[0].seq for entry in self._entries.values()]
        return sum(since < seq <= until for seq in added)

    async def counts(self) -> Counts:
        """The queue at a glance."""
        self._check_open()
        pending = self._counts[Status.PENDING]
        return Counts(
            by_status={status: sum(levels) for status, levels in self._counts.items()},
            pending_by_priority=dict(zip(Priority, pending, strict=True)),
            paused=self._paused_by is not None,
            oldest_ready_at=self._ready.oldest(),
        )

    async def dead_letters(self, task_id: str | None = None) -> list[DeadLetter]:
        """Tasks that failed for good, the newest first."""
        self._check_open()
        if task_id is not None:
            return [self._letters[task_id]] if task_id in self._letters else []
        return list(reversed(self._letters.values()))

    async def check(self) -> list[str]:
        """Everything that is wrong: tallies and letters that do not fit the tasks."""
        self._check_open()
        there = Counter((e.task.status, e.level) for e in self._entries.values())
        wrong = [
            f"{noted} {status} {priority} tasks are noted, {there[status, level]} are there"
            for status, levels in self._counts.items()
            for (level, noted), priority in zip(enumerate(levels), Priority, strict=True)
            if there[status, level] != noted
        ]
        failed = {i for i, e in self._entries.items() if e.task.status is Status.FAILED}
        wrong += [f"task {id_} and its dead letter disagree" for id_ in failed ^ set(self._letters)]
        return wrong

    def _entry(self, task_id: str) -> Entry:
        self._check_open()
        entry = self._entries.get(task_id)
        if entry is None:
            raise TaskNotFound(f"no task has the id {task_id}")
        return entry

    def _known(self, task_ids: Iterable[str]) -> list[Entry]:
        return [self._entries[task_id] for task_id in task_ids if task_id in self._entries]

    def _waiting(self) -> int:
        return sum(self._counts[Status.PENDING]) + sum(self._counts[Status.BLOCKED])
