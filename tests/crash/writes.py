"""Every kind of write, each on the same small store, in a child that kills itself on the way."""

import asyncio
import os
import signal
import sqlite3
from collections.abc import Callable, Coroutine
from typing import Any

from acode.clock import ManualClock
from acode.ids import encode
from acode.model.priority import Priority
from acode.model.state import Status
from acode.model.task import Lease, Submission, TaskSpec
from acode.model.verdict import Cancel, Complete, Fail, Release, RetryAt, Verdict
from acode.store.sqlite import SqliteStore
from tests.conformance.kit import FAILURE, TIMEOUT, World, report, wish

LATER = ManualClock().now() + 60_000
OLD, FAILED, CANCELLED, RUNNING, ASKED, WAITING, BLOCKED, NEXT = map(encode, range(1, 9))
NEW = [encode(100 + number) for number in range(3)]


def open_world(path: str, grouped: bool = False) -> World:
    clock = ManualClock(LATER)
    return World(SqliteStore.open(path, clock, grouped=grouped), clock)


async def prepare(path: str) -> None:
    """A store with a task for every kind of write."""
    clock = ManualClock()
    world = World(SqliteStore.open(path, clock, grouped=False), clock)
    for task_id, status in [
        (OLD, Status.COMPLETED),
        (FAILED, Status.FAILED),
        (CANCELLED, Status.CANCELLED),
        (RUNNING, Status.RUNNING),
        (ASKED, Status.RUNNING),
    ]:
        await world.make(status, id=task_id)
    lease = await running(world)
    await world.store.save_step(RUNNING, lease.token, "kept", [1, 2])
    await world.store.cancel(ASKED, actor="user")
    await world.add(id=WAITING)
    await world.add(id=BLOCKED, dependencies=(RUNNING,))
    await world.add(id=NEXT, priority=Priority.HIGH)
    await world.store.close()


async def running(world: World) -> Lease:
    """The lease of RUNNING, as a new daemon finds it."""
    return next(lease for lease in await world.store.leases() if lease.task.id == RUNNING)


async def finish(world: World, verdict: Verdict, then: int = 0) -> None:
    lease = await running(world)
    await world.store.finish(report(lease, verdict, LATER), wish(then))


async def add(world: World) -> None:
    needs: list[tuple[str, ...]] = [(NEW[1], OLD), (), (NEW[0], WAITING)]
    batch = [
        Submission(task_id, TaskSpec(command="x" * 2000, dependencies=needed))
        for task_id, needed in zip(NEW, needs, strict=True)
    ]
    await world.add_all(*batch)


async def save_step(world: World) -> None:
    await world.store.save_step(RUNNING, (await running(world)).token, "new", "x" * 9000)


async def all_at_once(world: World) -> None:
    """What a busy daemon commits together, while another process has kept it waiting."""
    lease = await running(world)
    store: Any = world.store
    other = sqlite3.connect(store.describe()["path"], isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    calls = [asyncio.ensure_future(store.pause(False, actor="user"))]
    while not store._writer._waiting.empty():  # noqa: ASYNC110 - a queue of another thread
        await asyncio.sleep(0.001)
    calls += [
        asyncio.ensure_future(call)
        for call in (
            add(world),
            store.finish(report(lease, Complete(), LATER), wish(1)),
            store.cancel(WAITING, actor="user"),
            store.retry(FAILED, actor="user"),
            world.claim(),
        )
    ]
    await asyncio.sleep(0)
    other.close()
    await asyncio.gather(*calls)


WRITES: dict[str, Callable[[World], Coroutine[Any, Any, Any]]] = {
    "add": add,
    "claim": lambda world: world.claim(2),
    "complete": lambda world: finish(world, Complete(), then=1),
    "fail": lambda world: finish(world, Fail(FAILURE, "failed")),
    "retry later": lambda world: finish(world, RetryAt(LATER, TIMEOUT, "later")),
    "release": lambda world: finish(world, Release("drained")),
    "end by wish": lambda world: finish(world, Cancel()),
    "save a step": save_step,
    "cancel": lambda world: world.store.cancel(WAITING, actor="user"),
    "wish an end": lambda world: world.store.cancel(RUNNING, actor="user"),
    "retry": lambda world: world.store.retry(FAILED, actor="user"),
    "drop": lambda world: world.store.drop(FAILED, actor="user"),
    "pause": lambda world: world.store.pause(True, actor="user"),
    "archive": lambda world: world.store.tidy(finished_before=LATER, steps_before=0),
    "all at once": all_at_once,
}


class Fuse:
    """Kills the process when the n-th statement is about to run."""

    def __init__(self, statements: int) -> None:
        self.left = statements

    def __call__(self, _statement: str) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def write_until(path: str, name: str, statements: int) -> None:
    """Do one write and die inside it, or right after it without a farewell."""
    world = open_world(path, grouped=name == "all at once")
    world.store._book.connection.set_trace_callback(Fuse(statements))  # type: ignore[attr-defined]
    asyncio.run(WRITES[name](world))
    os._exit(0)


def make_until(path: str, statements: int) -> None:
    """Make a new store and die inside it, or right after it."""
    fuse = Fuse(statements)

    def connect(*args: Any, **options: Any) -> sqlite3.Connection:
        made = sqlite3.Connection(*args, **options)
        made.set_trace_callback(fuse)
        return made

    sqlite3.connect = connect  # type: ignore[assignment]
    open_world(path)
    os._exit(0)
