"""The thread that commits: it groups, it is fair, and it loses nothing."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from acode.clock import ManualClock
from acode.errors import AcodeError, LeaseLost, QueueFull, StoreUnusable, TaskNotFound
from acode.ids import encode
from acode.model.verdict import Complete
from acode.store.base import Added, TaskQuery
from acode.store.sql import group, turns
from acode.store.sql.store import FEW
from acode.store.sqlite import SqliteStore
from tests.conformance.kit import PLENTY, World, assert_sound, at_once, report, submission, wish


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.db"


@pytest.fixture
async def world(path: Path) -> AsyncIterator[World]:
    clock = ManualClock()
    store = SqliteStore.open(str(path), clock)
    yield World(store, clock)
    await store.close()
    again = SqliteStore.open(str(path), clock)
    await assert_sound(again)
    await again.close()


@contextmanager
def another_writer(path: Path) -> Iterator[None]:
    """Meanwhile another process has the lock, and whatever is asked for has to wait."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


async def together(path: Path, *calls: Any) -> list[Any]:
    """Make calls that have to end up in the same commits; their results or errors."""
    with another_writer(path):
        tasks = [asyncio.ensure_future(call) for call in calls]
        await asyncio.sleep(0)
    return await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def commits(store: Any) -> Iterator[list[str]]:
    """The commits that happen meanwhile."""
    seen: list[str] = []
    connection = store._book.connection
    connection.set_trace_callback(lambda sql: seen.append(sql) if sql == "COMMIT" else None)
    yield seen
    connection.set_trace_callback(None)


@contextmanager
def committers(store: Any) -> Iterator[list[str]]:
    """The threads that commit meanwhile."""
    seen: list[str] = []
    connection = store._book.connection
    name = threading.current_thread
    connection.set_trace_callback(lambda sql: seen.append(name().name) if sql == "COMMIT" else None)
    yield seen
    connection.set_trace_callback(None)


async def test_what_takes_no_time_is_written_by_the_loop_itself(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "SLOW_SECONDS", 60.0)
    with committers(world.store) as seen:
        lease = await world.lease(await world.add())
        await world.complete(lease)
    assert set(seen) == {threading.current_thread().name}


async def test_what_takes_time_is_left_to_the_thread(world: World) -> None:
    with committers(world.store) as seen:
        await world.add_all(*[submission() for _ in range(FEW + 1)])
        await asyncio.gather(*[world.add() for _ in range(group.MAX_HERE + 1)])
    assert set(seen) == {"acode-writer"}


async def test_a_loop_that_was_held_up_leaves_the_next_writes_to_the_thread(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "SLOW_SECONDS", 0.0)
    monkeypatch.setattr(group, "SLOW_SHARE", 1e-6)
    with committers(world.store) as seen:
        for _ in range(3):
            await world.add()
    assert seen == [threading.current_thread().name, "acode-writer", "acode-writer"]


async def test_a_loop_writes_again_when_it_was_held_up_for_a_small_part_of_the_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "SLOW_SECONDS", 0.0)
    with committers(world.store) as seen:
        await world.add()
        monkeypatch.setattr(group, "SLOW_SECONDS", 60.0)
        while seen[-1] == "acode-writer" or len(seen) == 1:
            await asyncio.sleep(0.01)
            await world.add()
    assert seen[-1] == threading.current_thread().name


async def test_a_loop_does_not_wait_while_another_process_writes(world: World, path: Path) -> None:
    with committers(world.store) as seen:
        with another_writer(path):
            waiting = asyncio.ensure_future(world.add())
            for _ in range(10):
                await asyncio.sleep(0)
            assert not waiting.done()
        await waiting
    assert seen == ["acode-writer"]


async def test_what_waits_together_is_committed_together(world: World, path: Path) -> None:
    with commits(world.store) as seen:
        added = await together(path, *[world.add() for _ in range(300)])
    # The writer may have taken the first one before the others came.
    assert 1 <= len(seen) <= 2
    assert len(await world.store.find(TaskQuery(limit=PLENTY))) == len(set(added)) == 300


async def test_too_much_for_one_commit_is_written_in_parts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (group, turns):
        monkeypatch.setattr(module, "MAX_GROUP", 100)
    with commits(world.store) as seen:
        added = await asyncio.gather(*[world.add() for _ in range(250)])
    assert len(seen) == 3
    assert len(await world.store.find(TaskQuery(limit=PLENTY))) == len(set(added)) == 250


async def test_every_kind_of_write_shares_the_commit(world: World, path: Path) -> None:
    await world.add_all(*[submission(id=encode(number)) for number in range(5)])
    leases = await world.claim(3)
    with commits(world.store) as seen:
        results = await together(
            path,
            world.complete(leases[0]),
            world.store.save_step(leases[1].task.id, leases[1].token, "step", 1),
            world.store.cancel(leases[2].task.id, actor="user"),
            world.store.cancel(encode(3), actor="user"),
            world.store.pause(False, actor="user"),
            world.claim(1),
            world.add(),
        )
    assert len(seen) <= 2
    assert not [result for result in results if isinstance(result, BaseException)]
    assert results[5][0].task.id == encode(4)


async def test_a_claim_sees_what_came_with_it(world: World, path: Path) -> None:
    first = asyncio.ensure_future(world.add(delay_seconds=60))
    with another_writer(path):
        await asyncio.sleep(0.05)
        claim = asyncio.ensure_future(world.claim())
        add = asyncio.ensure_future(world.add())
        await asyncio.sleep(0)
    await first
    assert (await claim)[0].task.id == await add


async def test_two_ends_of_one_attempt_that_come_together_are_one(world: World, path: Path) -> None:
    lease = await world.lease(await world.add())
    outcomes = await together(path, *[world.complete(lease) for _ in range(5)])
    assert [type(outcome) for outcome in outcomes] == [type(None)] + [LeaseLost] * 4


async def test_of_additions_that_come_together_those_are_taken_that_fit(
    world: World, path: Path
) -> None:
    results = await together(path, *[world.add_all(submission(), queue_size=2) for _ in range(3)])
    assert [type(result) for result in results] == [list, list, QueueFull]
    assert len(await world.store.find(TaskQuery())) == 2


async def test_a_refusal_concerns_only_the_one_who_asked(world: World, path: Path) -> None:
    good = [world.add() for _ in range(3)]
    bad = [
        world.add(dependencies=(encode(9),)),
        world.store.cancel(encode(9), actor="user"),
        world.store.save_step(encode(9), "token", "step", 1),
    ]
    results = await together(path, good[0], bad[0], good[1], bad[1], bad[2], good[2])
    assert [type(result) for result in results] == [
        str,
        TaskNotFound,
        str,
        TaskNotFound,
        LeaseLost,
        str,
    ]
    assert len(await world.store.find(TaskQuery())) == 3


def unwritable(world: World, lease: Any) -> dict[str, Any]:
    """Requests that nobody can write, each in a way of its own."""

    def refuse(tasks: Any) -> Any:
        raise ZeroDivisionError

    return {
        "a step that is no JSON": world.store.save_step(
            lease.task.id, lease.token, "step", object()
        ),
        "a title that is no text": world.add(title="\ud800"),
        "a delay beyond all numbers": world.add(delay_seconds=1e300),
        "an actor that is nobody": world.store.add(
            [submission()],
            actor=None,  # type: ignore[arg-type]
            queue_size=PLENTY,
        ),
        "an assignment that fails": world.store.claim(wish()._replace(assign=refuse)),
    }


async def test_a_request_that_nobody_can_write_does_not_hurt_the_others(
    world: World, path: Path
) -> None:
    lease = await world.lease(await world.add())
    for name, bad in unwritable(world, lease).items():
        before = len(await world.store.find(TaskQuery(limit=PLENTY)))
        results = await together(path, world.add(), bad, world.add(), world.add())
        assert [isinstance(one, Exception) for one in results] == [False, True, False, False], name
        assert len(await world.store.find(TaskQuery(limit=PLENTY))) == before + 3, name
    await world.release(lease)
    assert (await world.lease(lease.task.id)).steps == {}


async def test_a_waiter_that_goes_away_does_not_take_its_write_along(
    world: World, path: Path
) -> None:
    one = submission()
    with another_writer(path):
        waiter = asyncio.ensure_future(world.add_all(one))
        await asyncio.sleep(0)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
    assert await world.add_all(one) == [Added(one.id, (await world.store.get(one.id)).status, True)]


async def test_threads_with_loops_of_their_own_share_the_store(world: World) -> None:
    failures: list[BaseException] = []

    def elsewhere() -> None:
        try:
            asyncio.run(add_some(world))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=elsewhere) for _ in range(4)]
    for thread in threads:
        thread.start()
    await add_some(world)
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert failures == []
    assert len(await world.store.find(TaskQuery(limit=PLENTY))) == 5 * 40


async def add_some(world: World) -> None:
    for _ in range(10):
        await asyncio.gather(*[world.add() for _ in range(4)])
        await world.store.counts()


async def test_a_loop_that_is_gone_does_not_stop_the_writer(world: World, path: Path) -> None:
    async def ask_and_leave() -> None:
        asyncio.ensure_future(world.add()).add_done_callback(lambda _: None)
        await asyncio.sleep(0)

    with another_writer(path):
        await asyncio.to_thread(asyncio.run, ask_and_leave())
    await world.add()
    assert len(await world.store.find(TaskQuery())) == 2


@pytest.mark.parametrize("attempt", range(10))
async def test_a_write_while_the_store_closes_is_done_or_refused(path: Path, attempt: int) -> None:
    store = SqliteStore.open(str(path), ManualClock())
    world = World(store, ManualClock())
    acknowledged: list[str] = []

    async def add_until_closed() -> None:
        while True:
            try:
                acknowledged.append(await world.add())
            except StoreUnusable:
                return

    def elsewhere() -> None:
        asyncio.run(add_until_closed())

    threads = [threading.Thread(target=elsewhere, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    await world.add()
    await store.close()
    for thread in threads:
        await asyncio.to_thread(thread.join, 10)
        assert not thread.is_alive(), "somebody waits for ever"
    again = SqliteStore.open(str(path), ManualClock(), grouped=False)
    there = {task.id for task in at_once(again.find(TaskQuery(limit=PLENTY)))}
    assert set(acknowledged) <= there
    at_once(again.close())


async def test_what_was_asked_for_before_the_close_is_still_done(path: Path) -> None:
    store = SqliteStore.open(str(path), ManualClock())
    world = World(store, ManualClock())
    waiting = [asyncio.ensure_future(world.add()) for _ in range(50)]
    await asyncio.sleep(0)
    await store.close()
    assert len(await asyncio.gather(*waiting)) == 50


async def test_the_end_of_an_attempt_is_fenced_across_two_stores(world: World, path: Path) -> None:
    """A direct writer beside the grouped one, as a command beside the daemon."""
    direct = SqliteStore.open(str(path), world.clock, grouped=False)
    lease = await world.lease(await world.add())
    at_once(direct.finish(report(lease, Complete(), world.clock.now())))
    with pytest.raises(AcodeError, match="not current"):
        await world.complete(lease)
    at_once(direct.close())
