"""Checkpoints: finished steps outlive their attempt, and nothing else."""

from typing import Any

import pytest

from acode.model.verdict import Cancel
from tests.conformance.kit import World

DAY = 24 * 3_600_000


async def with_steps(world: World, **steps: Any) -> str:
    """A task whose first attempt saved these and was given back."""
    task_id = await world.add()
    lease = await world.lease(task_id)
    for step, value in steps.items():
        await world.store.save_step(task_id, lease.token, step, value)
    await world.requeue(lease)
    return task_id


async def test_the_next_attempt_gets_the_finished_steps(world: World) -> None:
    task_id = await with_steps(world, fetch={"pages": [1, 2]}, update="done")
    assert (await world.lease(task_id)).steps == {"fetch": {"pages": [1, 2]}, "update": "done"}


@pytest.mark.parametrize(
    "value", [None, True, 0, -1.5, "", "ü 🦀 \x00", [], {}, [None, {"a": [1]}]], ids=repr
)
async def test_any_json_value_comes_back_as_it_was(world: World, value: Any) -> None:
    task_id = await with_steps(world, step=value)
    assert (await world.lease(task_id)).steps == {"step": value}


async def test_a_step_that_is_saved_again_has_its_newest_value(world: World) -> None:
    task_id = await world.add()
    lease = await world.lease(task_id)
    for value in (1, 2):
        await world.store.save_step(task_id, lease.token, "step", value)
    await world.release(lease)
    assert (await world.lease(task_id)).steps == {"step": 2}


async def test_steps_gather_over_attempts(world: World) -> None:
    task_id = await with_steps(world, one=1)
    lease = await world.lease(task_id)
    await world.store.save_step(task_id, lease.token, "two", 2)
    await world.release(lease)
    assert (await world.lease(task_id)).steps == {"one": 1, "two": 2}


async def test_tasks_do_not_see_each_others_steps(world: World) -> None:
    ids = [await world.add(), await world.add()]
    for value, lease in enumerate(await world.claim(2)):
        await world.store.save_step(lease.task.id, lease.token, "step", value)
        await world.release(lease)
    steps = {lease.task.id: lease.steps for lease in await world.claim(2)}
    assert steps == {ids[0]: {"step": 0}, ids[1]: {"step": 1}}


async def test_a_value_is_kept_as_it_was_when_it_was_saved(world: World) -> None:
    task_id = await world.add()
    lease = await world.lease(task_id)
    pages = [1]
    await world.store.save_step(task_id, lease.token, "fetch", pages)
    pages.append(2)
    await world.release(lease)
    assert (await world.lease(task_id)).steps == {"fetch": [1]}


async def test_a_value_that_is_not_json_is_refused_and_changes_nothing(world: World) -> None:
    task_id = await world.add()
    lease = await world.lease(task_id)
    await world.store.save_step(task_id, lease.token, "step", 1)
    with pytest.raises(TypeError):
        await world.store.save_step(task_id, lease.token, "step", object())
    await world.release(lease)
    assert (await world.lease(task_id)).steps == {"step": 1}


async def test_success_forgets_the_steps(world: World) -> None:
    task_id = await with_steps(world, step=1)
    await world.complete(await world.lease(task_id))
    tidied = await world.store.tidy(finished_before=0, steps_before=world.clock.now() + 1)
    assert tidied.checkpoints == 0


@pytest.mark.parametrize("reset", [True, False])
async def test_a_dead_letter_keeps_the_steps_and_a_retry_goes_on_after_them(
    world: World, reset: bool
) -> None:
    task_id = await with_steps(world, step=1, nothing=None)
    await world.fail(await world.lease(task_id))
    (letter,) = await world.store.dead_letters(task_id)
    assert letter.checkpoint == {"step": 1, "nothing": None}
    await world.store.retry(task_id, actor="user", reset_attempts=reset)
    lease = await world.lease(task_id)
    assert lease.steps == {"step": 1, "nothing": None}
    await world.store.save_step(task_id, lease.token, "more", 2)
    await world.fail(lease)
    (letter,) = await world.store.dead_letters(task_id)
    assert letter.checkpoint == {"step": 1, "nothing": None, "more": 2}


async def test_a_cancelled_task_keeps_its_steps_for_a_retry(world: World) -> None:
    task_id = await with_steps(world, step=1)
    await world.finish(await world.lease(task_id), Cancel())
    await world.store.retry(task_id, actor="user")
    assert (await world.lease(task_id)).steps == {"step": 1}


async def test_a_dropped_letter_takes_its_steps_along(world: World) -> None:
    task_id = await with_steps(world, step=1)
    await world.fail(await world.lease(task_id))
    await world.store.drop(task_id, actor="user")
    await world.store.retry(task_id, actor="user")
    assert (await world.lease(task_id)).steps == {}


@pytest.mark.req("lld-19")
async def test_orphaned_steps_are_removed_once_they_are_old(world: World) -> None:
    """Orphaned: their task is finished, though not by success, and nobody has retried it."""
    task_id = await with_steps(world, one=1, two=2)
    await world.finish(await world.lease(task_id), Cancel())
    saved = world.clock.now()
    world.clock.advance(7 * DAY)
    assert (await world.store.tidy(finished_before=0, steps_before=saved)).checkpoints == 0
    assert (await world.store.tidy(finished_before=0, steps_before=saved + 1)).checkpoints == 2
    await world.store.retry(task_id, actor="user")
    assert (await world.lease(task_id)).steps == {}


@pytest.mark.req("lld-19")
async def test_steps_that_are_still_needed_are_kept_however_old(world: World) -> None:
    running = await world.lease(await with_steps(world, step=1))
    waiting = await with_steps(world, step=2)
    world.clock.advance(1000 * DAY)
    tidied = await world.store.tidy(finished_before=0, steps_before=world.clock.now())
    assert tidied.checkpoints == 0
    assert (await world.lease(waiting)).steps == {"step": 2}
    await world.release(running)
    assert (await world.lease(running.task.id)).steps == {"step": 1}
