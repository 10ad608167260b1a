"""A store, a clock that moves when told, and short words for what the tests do with them."""

from collections.abc import Collection, Coroutine, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from acode.clock import ManualClock
from acode.ids import new_id
from acode.model.ending import Ending, Exited, Released
from acode.model.failure import Category, Failure, FailureCode
from acode.model.host import Host
from acode.model.priority import Priority
from acode.model.state import MOVES, Status
from acode.model.task import Attempt, Lease, Record, Result, Submission, Task, TaskSpec
from acode.model.verdict import Cancel, Complete, Fail, Release, Report, RetryAt, Verdict
from acode.store.base import Added, Circuit, Claim, Store, TaskQuery

T = TypeVar("T")

PLENTY = 100_000
MINUTE = 60_000
WORKER = "01HZZZZZZZZZZZZZZZZZZZZZZZ"
HOST = "01HZZZZZZZZZZZZZZZZZZZHOST"
FAILURE = Failure(FailureCode.EXIT_CODE, Category.PERMANENT, "exited with 1", "read its log")
TIMEOUT = Failure(FailureCode.TIMEOUT, Category.TRANSIENT, "took too long")


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """The value of a coroutine that never suspends: memory, and SQLite without its threads."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    coroutine.close()
    raise AssertionError("it suspended")


def to_one_worker(tasks: Sequence[Task]) -> list[str | None]:
    return [WORKER] * len(tasks)


def wish(limit: int = 1, held: Collection[Circuit] = (), host_id: str | None = None) -> Claim:
    return Claim(limit, to_one_worker, held, host_id)


def host(host_id: str = HOST, **facts: Any) -> Host:
    """A daemon on some machine."""
    return Host(id=host_id, **{"name": "mars", "boot_id": "b", "pid": 7} | facts)


def submission(**spec: Any) -> Submission:
    """A task with an id of its own, or the `id` that is given."""
    task_id = spec.pop("id", None) or new_id(1_700_000_000_000)
    return Submission(task_id, TaskSpec(**{"command": "true"} | spec))


def report(lease: Lease, verdict: Verdict, ended_at: int, ending: Ending | None = None) -> Report:
    if ending is None:
        ending = Released("drained") if isinstance(verdict, Release) else Exited(0)
    return Report(
        task_id=lease.task.id, token=lease.token, ending=ending, ended_at=ended_at, verdict=verdict
    )


class World:
    """One store and everything that tests ask of it."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock

    async def add(self, **spec: Any) -> str:
        """Add one task; its id."""
        return (await self.add_all(submission(**spec)))[0].id

    async def add_all(self, *submissions: Submission, queue_size: int = PLENTY) -> list[Added]:
        return await self.store.add(submissions, actor="user", queue_size=queue_size)

    async def claim(self, limit: int = 1, held: Collection[Circuit] = ()) -> list[Lease]:
        return await self.store.claim(wish(limit, held))

    async def lease(self, task_id: str | None = None) -> Lease:
        """The lease of the one task that is next; it must be this one."""
        leases = await self.claim()
        assert len(leases) == 1
        assert task_id in (None, leases[0].task.id)
        return leases[0]

    async def order(self) -> list[str]:
        """Claim everything that is ready; ids in the order in which they came."""
        return [lease.task.id for lease in await self.claim(PLENTY)]

    async def finish(
        self, lease: Lease, verdict: Verdict, *, ending: Ending | None = None
    ) -> list[Lease]:
        return await self.store.finish(report(lease, verdict, self.clock.now(), ending))

    async def complete(self, lease: Lease, value: Any = None) -> None:
        await self.finish(lease, Complete(Result(exit_code=0, value=value)))

    async def fail(self, lease: Lease, failure: Failure = FAILURE) -> None:
        await self.finish(lease, Fail(failure, "failed for good"), ending=Exited(1))

    async def requeue(self, lease: Lease, after: int = 0) -> None:
        """Another try, `after` milliseconds from now."""
        ready_at = self.clock.now() + after
        await self.finish(lease, RetryAt(ready_at, TIMEOUT, "once more"), ending=Exited(1))

    async def release(self, lease: Lease) -> None:
        await self.finish(lease, Release("drained"))

    async def make(self, status: Status, **spec: Any) -> str:
        """A task in this status; nothing else may be ready."""
        if status is Status.BLOCKED:
            need = await self.add(delay_seconds=10**6)
            return await self.add(dependencies=(need,), **spec)
        task_id = await self.add(**spec)
        if status is Status.PENDING:
            return task_id
        lease = await self.lease(task_id)
        match status:
            case Status.COMPLETED:
                await self.complete(lease)
            case Status.FAILED:
                await self.fail(lease)
            case Status.CANCELLED:
                await self.finish(lease, Cancel())
        return task_id

    async def status(self, task_id: str) -> Status:
        return (await self.store.get(task_id)).status

    async def reasons(self, task_id: str) -> list[str]:
        return [move.reason for move in (await self.store.record(task_id)).history]

    async def everything(self) -> list[Record]:
        """Every task that is not archived, in the order of arrival."""
        tasks = await self.store.find(TaskQuery(limit=PLENTY))
        return [await self.store.record(task.id) for task in tasks]


async def assert_sound(store: Store) -> None:
    """What must hold for every store at any time."""
    assert await store.check() == []
    world = World(store, ManualClock())
    records = await world.everything()
    for record in records:
        assert_history_is_whole(record)
        assert_attempts_fit(record)
    await assert_counts_are_true(store, [record.task for record in records])
    failed = [record.task.id for record in records if record.task.status is Status.FAILED]
    assert sorted(letter.task_id for letter in await store.dead_letters()) == sorted(failed)


def assert_history_is_whole(record: Record) -> None:
    """It begins with `added`, ends where the task is, and every step follows by the table."""
    history = record.history
    assert history[0].was is None
    assert history[0].became in (Status.PENDING, Status.BLOCKED)
    assert history[-1].became is record.task.status
    for before, after in pairwise(history):
        assert after.was is before.became
        assert after.became in MOVES[before.became]
        assert after.seq > before.seq
    assert all(move.task_id == record.task.id for move in history)
    assert all(move.actor and move.reason for move in history)


def assert_attempts_fit(record: Record) -> None:
    """Numbered from one; open only the last one of a running task; one per start."""
    task, attempts = record.task, record.attempts
    assert [attempt.number for attempt in attempts] == list(range(1, task.last_attempt + 1))
    starts = sum(move.became is Status.RUNNING for move in record.history)
    assert len(attempts) == starts
    assert [attempt.number for attempt in attempts if _is_open(attempt)] == (
        [task.last_attempt] if task.status is Status.RUNNING else []
    )
    assert 0 <= task.attempt_count <= task.last_attempt


def _is_open(attempt: Attempt) -> bool:
    assert (attempt.ended_at is None) is (attempt.ending is None)
    return attempt.ended_at is None


async def assert_counts_are_true(store: Store, tasks: list[Task]) -> None:
    counts = await store.counts()
    pending = [task for task in tasks if task.status is Status.PENDING]
    assert counts.by_status == {s: sum(task.status is s for task in tasks) for s in Status}
    assert counts.pending_by_priority == {
        p: sum(task.spec.priority is p for task in pending) for p in Priority
    }
    assert counts.oldest_ready_at == min((task.ready_at for task in pending), default=None)
