"""Waiting for other tasks: chains, diamonds, and what failure does to them."""

import asyncio

import pytest

from acode.model.state import Status
from acode.model.verdict import Complete
from tests.conformance.kit import PLENTY, World, report, submission


async def test_a_task_goes_on_in_the_moment_its_need_completes(world: World) -> None:
    need = await world.add()
    task_id = await world.add(dependencies=(need,))
    lease = await world.lease(need)
    world.clock.advance(50)
    assert await world.claim() == []
    await world.complete(lease)
    record = await world.store.record(task_id)
    assert (record.task.status, record.task.ready_at) == (Status.PENDING, world.clock.now())
    move = record.history[-1]
    assert (move.actor, move.reason) == ("store", "every dependency is completed")
    await world.lease(task_id)


async def test_a_delay_goes_on_counting_while_a_task_is_blocked(world: World) -> None:
    need = await world.add()
    task_id = await world.add(dependencies=(need,), delay_seconds=10)
    await world.complete(await world.lease(need))
    assert await world.claim() == []
    world.clock.advance(10_000)
    await world.lease(task_id)


async def test_a_chain_runs_link_by_link(world: World) -> None:
    chain = [submission()]
    for _ in range(9):
        chain.append(submission(dependencies=(chain[-1].id,)))
    await world.add_all(*chain)
    for link in chain:
        await world.complete(await world.lease(link.id))


async def test_the_end_of_a_diamond_waits_for_both_sides(world: World) -> None:
    top = submission()
    left, right = submission(dependencies=(top.id,)), submission(dependencies=(top.id,))
    end = submission(dependencies=(left.id, right.id))
    await world.add_all(top, left, right, end)
    await world.complete(await world.lease(top.id))
    sides = await world.claim(PLENTY)
    assert [lease.task.id for lease in sides] == [left.id, right.id]
    await world.complete(sides[1])
    assert await world.status(end.id) is Status.BLOCKED
    await world.complete(sides[0])
    await world.lease(end.id)


async def test_a_hundred_needs_that_complete_at_once_free_their_dependent_once(
    world: World,
) -> None:
    needs = [submission() for _ in range(100)]
    end = submission(dependencies=tuple(need.id for need in needs))
    await world.add_all(*needs, end)
    leases = await world.claim(100)
    reports = [report(lease, Complete(), world.clock.now()) for lease in leases]
    await asyncio.gather(*[world.store.finish(one) for one in reports])
    assert len((await world.store.record(end.id)).history) == 2
    await world.lease(end.id)


async def test_a_need_with_a_hundred_dependents_frees_them_all(world: World) -> None:
    need = await world.add()
    many = [submission(dependencies=(need,)) for _ in range(100)]
    await world.add_all(*many)
    await world.complete(await world.lease(need))
    assert await world.order() == [one.id for one in many]


@pytest.mark.parametrize("end", [Status.FAILED, Status.CANCELLED])
async def test_dependents_of_a_task_that_did_not_complete_stay_blocked(
    world: World, end: Status
) -> None:
    need = submission()
    task = submission(dependencies=(need.id,))
    await world.add_all(need, task)
    lease = await world.lease(need.id)
    if end is Status.FAILED:
        await world.fail(lease)
    else:
        await world.store.cancel(need.id, actor="user")
        await world.release(lease)
    assert await world.status(need.id) is end
    assert await world.status(task.id) is Status.BLOCKED
    assert await world.claim() == []
    await world.store.retry(need.id, actor="user")
    await world.complete(await world.lease(need.id))
    await world.lease(task.id)


async def test_a_blocked_task_can_be_cancelled_and_is_not_freed_any_more(world: World) -> None:
    need = await world.add()
    task_id = await world.add(dependencies=(need,))
    await world.store.cancel(task_id, actor="user")
    await world.complete(await world.lease(need))
    assert await world.status(task_id) is Status.CANCELLED
    assert await world.claim() == []


async def test_a_retried_task_is_blocked_again_while_a_need_is_unfinished(world: World) -> None:
    need = await world.add(delay_seconds=60)
    task_id = await world.add(dependencies=(need,))
    await world.store.cancel(task_id, actor="user")
    task = await world.store.retry(task_id, actor="user")
    assert task.status is Status.BLOCKED
    assert (await world.reasons(task_id))[-2:] == [
        "retried by the user",
        "waits for its dependencies",
    ]
    world.clock.advance(60_000)
    await world.complete(await world.lease(need))
    assert await world.order() == [task_id]


async def test_a_retried_task_whose_need_completed_meanwhile_is_ready(world: World) -> None:
    need = await world.add()
    task_id = await world.add(dependencies=(need,))
    await world.store.cancel(task_id, actor="user")
    await world.complete(await world.lease(need))
    assert (await world.store.retry(task_id, actor="user")).status is Status.PENDING


async def test_a_need_that_completes_in_the_moment_of_a_retry_frees_once(world: World) -> None:
    need = await world.add()
    task_id = await world.add(dependencies=(need,))
    lease = await world.lease(need)
    await world.store.cancel(task_id, actor="user")
    await world.store.retry(task_id, actor="user")
    await world.complete(lease)
    assert await world.order() == [task_id]
