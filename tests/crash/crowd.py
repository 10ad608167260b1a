"""What many processes do to one store at the same time."""

import asyncio
import os
import random
from contextlib import suppress
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

from acode.clock import SystemClock
from acode.errors import IllegalMove
from acode.model.state import Status
from acode.model.task import Lease
from acode.model.verdict import Complete, Release, RetryAt, Verdict
from acode.store.base import TaskQuery
from acode.store.sqlite import SqliteStore
from tests.conformance.kit import TIMEOUT, World, report, submission, wish

GRACE = 0.002


def open_world(path: str, grouped: bool = False) -> World:
    clock = SystemClock()
    return World(SqliteStore.open(path, clock, grouped=grouped), clock)  # type: ignore[arg-type]


def add_many(path: str, start: Barrier, count: int, each: int) -> None:
    """Add `count` times `each` tasks, every batch in a commit of its own, as commands do."""
    world = open_world(path)
    start.wait()
    for _ in range(count):
        asyncio.run(world.add_all(*[submission() for _ in range(each)]))
    asyncio.run(world.store.close())


def cancel_some(path: str, start: Barrier, over: Event, seed: int) -> None:
    """Cancel whatever is at hand, and take back some of it, until it is over."""
    asyncio.run(_cancel_some(path, start, over, random.Random(seed)))


async def _cancel_some(path: str, start: Barrier, over: Event, chance: random.Random) -> None:
    world = open_world(path)
    start.wait()
    while not over.is_set():
        for task in await world.store.find(TaskQuery(limit=20, offset=chance.randrange(400))):
            if task.status is Status.CANCELLED:
                await world.store.retry(task.id, actor="user")
            elif chance.random() < 0.05:
                with suppress(IllegalMove):
                    await world.store.cancel(task.id, actor="user", force=True)
    await world.store.close()


def run_many(path: str, start: Barrier, over: Event, seed: int, grouped: bool) -> None:
    """Claim and finish until it is over and nothing is left."""
    asyncio.run(_Runner(path, over, random.Random(seed), grouped).run(start))


class _Runner:
    """Holds a file for every task that it runs; nobody else may have one of that name."""

    def __init__(self, path: str, over: Event, chance: random.Random, grouped: bool) -> None:
        self.world = open_world(path, grouped)
        self.held = Path(path).parent / "held"
        self.done = Path(path).parent / "done"
        self.over = over
        self.chance = chance

    async def run(self, start: Barrier) -> None:
        start.wait()
        leases: list[Lease] = []
        while leases or not self.over.is_set() or (await self.world.store.counts()).waiting:
            for lease in leases:
                self.hold(lease)
            finished = await asyncio.gather(*[self.finish(lease) for lease in leases])
            leases = [following for haul in finished for following in haul]
            leases += await self.world.claim(self.chance.randrange(4))
        await self.world.store.close()

    def hold(self, lease: Lease) -> None:
        os.close(os.open(self.held / lease.task.id, os.O_CREAT | os.O_EXCL))

    async def finish(self, lease: Lease) -> list[Lease]:
        await asyncio.sleep(GRACE)
        verdict = self.verdict()
        if isinstance(verdict, Complete):
            os.close(os.open(self.done / lease.task.id, os.O_CREAT | os.O_EXCL))
        os.unlink(self.held / lease.task.id)
        now = self.world.clock.now()
        return await self.world.store.finish(report(lease, verdict, now), wish(1))

    def verdict(self) -> Verdict:
        now = self.world.clock.now()
        others: list[Verdict] = [Release("drained"), RetryAt(now, TIMEOUT, "again")]
        return self.chance.choice([Complete(), Complete(), Complete(), *others])
