"""How many tasks a second can one process add, claim and complete, every step on disk?"""

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Sequence

from acode.clock import SystemClock
from acode.ids import new_id
from acode.model.ending import Exited
from acode.model.state import Status
from acode.model.task import Lease, Submission, Task, TaskSpec
from acode.model.verdict import Complete, Report
from acode.store.base import Claim
from acode.store.sqlite import SqliteStore
from bench import peers
from bench.disk import sync_seconds
from bench.filled import Shelf
from bench.report import Line, Pair, at_least, duration
from bench.rounds import Rounds, Scale, seconds

WORKERS = 100
PRODUCERS = 100
BATCH = 1_000
QUEUE_SIZE = 1_000_000
DISK_SECONDS = 2.0
"""How long a peer that commits three times for a task may wait for the disk in a round."""

Adding = Callable[[SqliteStore, int], Coroutine[None, None, None]]

clock = SystemClock()


def measure(shelf: Shelf, scale: Scale) -> Iterator[Line]:
    """Compare both ways to add with every peer."""
    turns = {
        "batches of 1,000": _ours(shelf.directory, scale.tasks, _add_in_batches),
        "single adds": _ours(shelf.directory, scale.tasks, _add_one_by_one),
    }
    few = _as_many_as_fit(shelf.directory, scale)
    for name, peer in (peers.DURABLE | peers.OTHERS).items():
        tasks = scale.tasks if name == peers.BATCHED else few
        turns[name] = _theirs(shelf.directory, tasks, peer)
    turns["fsync"] = lambda: sync_seconds(shelf.directory)
    rates = Rounds(turns, scale.rounds)
    goals = {max(peers.DURABLE, key=rates.median): 10, peers.BATCHED: 0.5}
    for ours in ("batches of 1,000", "single adds"):
        for name in (*peers.DURABLE, *peers.OTHERS):
            case = f"add, claim, complete ({ours})"
            yield at_least(case, Pair(rates, ours, name), goals.get(name))
    yield _fsync(rates)


def _as_many_as_fit(directory: str, scale: Scale) -> int:
    """Tasks for those that wait for the disk at every step: not so few that opening counts."""
    wanted = int(DISK_SECONDS / (3 * sync_seconds(directory)))
    return min(scale.tasks, max(scale.committed, wanted))


def _fsync(rates: Rounds) -> Line:
    """How quick the disk was meanwhile: the quicker, the less a shared commit can save."""
    least, most = duration(rates.least("fsync")), duration(rates.most("fsync"))
    return Line("an fsync meanwhile", duration(rates.median("fsync")), f"from {least} to {most}")


def _theirs(directory: str, tasks: int, peer: peers.Peer) -> Callable[[], float]:
    def turn() -> float:
        with tempfile.TemporaryDirectory(dir=directory) as fresh:
            return tasks / seconds(lambda: peer(fresh, tasks))

    return turn


def _ours(directory: str, tasks: int, add: Adding) -> Callable[[], float]:
    return _theirs(directory, tasks, lambda fresh, n: asyncio.run(_drive(f"{fresh}/q.db", n, add)))


async def _drive(path: str, tasks: int, add: Adding) -> None:
    store = SqliteStore.open(path, clock)
    await add(store, tasks)
    leases = await store.claim(Claim(WORKERS, _assign))
    await asyncio.gather(*(_work(store, lease) for lease in leases))
    counts = await store.counts()
    if counts.by_status[Status.COMPLETED] != tasks:
        raise RuntimeError(f"not all were completed: {counts}")
    await store.close()


def _submission() -> Submission:
    return Submission(new_id(clock.now()), TaskSpec(command="true"))


async def _add_in_batches(store: SqliteStore, tasks: int) -> None:
    for _ in range(tasks // BATCH):
        batch = [_submission() for _ in range(BATCH)]
        await store.add(batch, actor="bench", queue_size=QUEUE_SIZE)


async def _add_one_by_one(store: SqliteStore, tasks: int) -> None:
    async def produce() -> None:
        for _ in range(tasks // PRODUCERS):
            await store.add([_submission()], actor="bench", queue_size=QUEUE_SIZE)

    await asyncio.gather(*(produce() for _ in range(PRODUCERS)))


def _assign(tasks: Sequence[Task]) -> list[str]:
    return ["worker"] * len(tasks)


async def _work(store: SqliteStore, lease: Lease) -> None:
    """One worker: every finish claims what is next, and both are on disk before it goes on.

    A pool does not wait so; but the peers wait at every step, and durable is what is asked for.
    """
    following = [lease]
    while following:
        done = following[0]
        report = Report(
            task_id=done.task.id,
            token=done.token,
            ending=Exited(0),
            ended_at=clock.now(),
            verdict=Complete(),
        )
        following = await store.finish(report, then=Claim(1, _assign))
        await store.settled()
