"""Tidying: finished tasks go out of the way, and can still be read."""

import asyncio

import pytest

from acode.errors import TaskNotFound
from acode.model.state import Status
from acode.store.base import Tidied
from tests.conformance.kit import World, submission


async def tidy(world: World) -> Tidied:
    """Archive everything that was finished before this moment."""
    world.clock.advance(1)
    now = world.clock.now()
    return await world.store.tidy(finished_before=now, steps_before=now)


async def left(world: World) -> list[str]:
    return [record.task.id for record in await world.everything()]


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.CANCELLED])
async def test_an_archived_task_can_still_be_read(world: World, status: Status) -> None:
    task_id = await world.make(status, metadata={"deep": [1, {"x": None}]}, workstream_id="w")
    before = await world.store.record(task_id)
    assert (await tidy(world)).archived == 1
    assert await left(world) == []
    assert await world.store.record(task_id) == before
    assert await world.store.get(task_id) == before.task
    assert await world.store.resolve(task_id[:20]) == task_id
    assert (await world.store.counts()).by_status[status] == 0


@pytest.mark.parametrize("status", [Status.PENDING, Status.BLOCKED, Status.RUNNING, Status.FAILED])
async def test_everything_else_stays(world: World, status: Status) -> None:
    await world.make(status)
    before = await world.everything()
    assert (await tidy(world)).archived == 0
    assert await world.everything() == before


async def test_only_what_ended_before_the_moment_goes(world: World) -> None:
    old = await world.make(Status.COMPLETED)
    world.clock.advance(10)
    young = await world.make(Status.COMPLETED)
    ended = world.clock.now()
    assert (await world.store.tidy(finished_before=ended, steps_before=0)).archived == 1
    assert await left(world) == [young]
    assert await world.status(old) is Status.COMPLETED


async def test_tidying_again_finds_nothing(world: World) -> None:
    await world.make(Status.COMPLETED)
    await tidy(world)
    assert await tidy(world) == Tidied()


async def test_hundreds_are_archived_in_one_go(world: World) -> None:
    added = await world.add_all(*[submission() for _ in range(510)])
    await asyncio.gather(*[world.store.cancel(one.id, actor="user") for one in added])
    assert (await tidy(world)).archived == 510


async def test_what_a_blocked_task_waits_for_stays(world: World) -> None:
    done, open_one = await world.make(Status.COMPLETED), await world.add(delay_seconds=60)
    waiting = await world.add(dependencies=(done, open_one))
    assert (await tidy(world)).archived == 0
    world.clock.advance(60_000)
    await world.complete(await world.lease(open_one))
    assert (await tidy(world)).archived == 2
    assert await left(world) == [waiting]
    await world.lease(waiting)


async def test_what_a_cancelled_task_would_wait_for_stays_as_long_as_that(world: World) -> None:
    """A retry must find its need, or it would run without it."""
    need = await world.add()
    task_id = await world.add(dependencies=(need,))
    await world.store.cancel(need, actor="user")
    world.clock.advance(10)
    await world.store.cancel(task_id, actor="user")
    ended = world.clock.now()
    assert (await world.store.tidy(finished_before=ended, steps_before=0)).archived == 0
    assert (await world.store.retry(task_id, actor="user")).status is Status.BLOCKED


async def test_a_chain_of_cancelled_tasks_goes_together(world: World) -> None:
    chain = [submission()]
    for _ in range(4):
        chain.append(submission(dependencies=(chain[-1].id,)))
    await world.add_all(*chain)
    for link in chain:
        await world.store.cancel(link.id, actor="user")
    assert (await tidy(world)).archived == 5


async def test_the_dependents_of_an_archived_task_live_on(world: World) -> None:
    need = await world.add()
    task_id = await world.add(dependencies=(need,))
    await world.complete(await world.lease(need))
    await tidy(world)
    lease = await world.lease(task_id)
    assert lease.task.spec.dependencies == (need,)
    await world.fail(lease)
    assert (await world.store.retry(task_id, actor="user")).status is Status.PENDING


async def test_the_key_of_an_archived_task_is_free_again(world: World) -> None:
    old = await world.make(Status.COMPLETED, key="nightly")
    await tidy(world)
    new = (await world.add_all(submission(key="nightly")))[0]
    assert not new.existed
    assert new.id != old


async def test_an_archived_task_is_still_the_answer_to_its_own_id(world: World) -> None:
    one = submission(key="nightly")
    await world.add_all(one)
    await world.complete(await world.lease())
    await tidy(world)
    (again,) = await world.add_all(one)
    assert (again.id, again.status, again.existed) == (one.id, Status.COMPLETED, True)
    assert await left(world) == []


@pytest.mark.parametrize("verb", ["cancel", "retry", "drop"])
async def test_an_archived_task_is_beyond_wishes(world: World, verb: str) -> None:
    task_id = await world.make(Status.CANCELLED)
    await tidy(world)
    with pytest.raises(TaskNotFound):
        await getattr(world.store, verb)(task_id, actor="user")


async def test_archived_ids_are_ambiguous_with_living_ones(world: World) -> None:
    await world.add(id="01HF7YAT00AAAAAAAAAAAAAAAA")
    await world.complete(await world.lease())
    await tidy(world)
    await world.add(id="01HF7YAT00BBBBBBBBBBBBBBBB")
    assert await world.store.resolve("01HF7YAT00A") == "01HF7YAT00AAAAAAAAAAAAAAAA"
