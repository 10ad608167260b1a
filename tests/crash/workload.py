"""What a child does to a store until it is killed; each write is told when it is acknowledged."""

import asyncio
import random
from multiprocessing.connection import Connection
from typing import NamedTuple

from acode.clock import SystemClock
from acode.model.ending import Exited
from acode.model.state import Status
from acode.model.task import Lease
from acode.model.verdict import Cancel, Complete, Fail, Release, RetryAt, Verdict
from acode.store.sqlite import SqliteStore
from tests.conformance.kit import FAILURE, PLENTY, TIMEOUT, World, report, submission, wish

BATCH = 5


class Told(NamedTuple):
    """One acknowledged write."""

    task_id: str
    attempt: int = 0
    """Its number, if the write began or ended one."""
    status: Status | None = None
    """For good; None if something may still happen to the task."""


def work(path: str, told: Connection, seed: int, grouped: bool) -> None:
    """Add, claim and finish for ever."""
    asyncio.run(_work(path, told, random.Random(seed), grouped))


async def _work(path: str, told: Connection, chance: random.Random, grouped: bool) -> None:
    store = SqliteStore.open(path, SystemClock(), grouped=grouped)
    world = World(store, SystemClock())  # type: ignore[arg-type]
    hands = [_Hand(world, told, chance) for _ in range(4 if grouped else 1)]
    await hands[0].clear_up()
    await asyncio.gather(*[hand.work() for hand in hands])


class _Hand:
    """One of several that work at the same time."""

    def __init__(self, world: World, told: Connection, chance: random.Random) -> None:
        self.world = world
        self.told = told
        self.chance = chance

    async def clear_up(self) -> None:
        """As a new daemon does: what ran when the last one died goes back."""
        for lease in await self.world.store.leases():
            await self.world.release(lease)

    async def work(self) -> None:
        while True:
            await self.add()
            for lease in await self.world.claim(self.chance.randrange(4)):
                self.told.send([Told(lease.task.id, lease.number)])
                await self.finish(lease)

    async def add(self) -> None:
        name = str(self.chance.random())
        batch = [submission(title=name) for _ in range(BATCH - 1)]
        batch.append(submission(title=name, dependencies=(batch[0].id,)))
        added = await self.world.add_all(*batch)
        self.told.send([Told(one.id) for one in added])

    async def finish(self, lease: Lease) -> None:
        if self.chance.random() < 0.2:
            await self.world.store.save_step(lease.task.id, lease.token, "step", lease.number)
        verdict, status = self.chance.choice(self.verdicts())
        now = self.world.clock.now()
        next_ones = await self.world.store.finish(
            report(lease, verdict, now, Exited(0)), wish(self.chance.randrange(2))
        )
        self.told.send([Told(lease.task.id, lease.number, status)])
        for following in next_ones:
            await self.world.complete(following)
            self.told.send([Told(following.task.id, following.number, Status.COMPLETED)])

    def verdicts(self) -> list[tuple[Verdict, Status | None]]:
        return [
            (Complete(), Status.COMPLETED),
            (Fail(FAILURE, "failed"), Status.FAILED),
            (Cancel(), Status.CANCELLED),
            (RetryAt(self.world.clock.now() + PLENTY, TIMEOUT, "later"), None),
            (Release("drained"), None),
        ]
