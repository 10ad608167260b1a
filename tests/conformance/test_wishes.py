"""What users wish: cancel, retry, drop; and every move that is refused."""

from collections.abc import Callable
from typing import Any

import pytest

from acode.errors import IllegalMove, TaskNotFound
from acode.ids import encode
from acode.model.state import Status
from acode.model.task import CancelWish
from acode.model.verdict import Cancel
from tests.conformance.kit import FAILURE, World

UNKNOWN = encode(42)


@pytest.mark.parametrize("status", [Status.PENDING, Status.BLOCKED])
async def test_a_waiting_task_is_cancelled_at_once(world: World, status: Status) -> None:
    task_id = await world.make(status)
    task = await world.store.cancel(task_id, actor="user")
    assert task == await world.store.get(task_id)
    assert (task.status, task.completed_at) == (Status.CANCELLED, world.clock.now())
    assert (await world.reasons(task_id))[-1] == "cancelled before it ran"
    assert await world.claim() == []


async def test_a_task_that_waits_for_another_try_was_not_cancelled_before_it_ran(
    world: World,
) -> None:
    task_id = await world.add()
    await world.requeue(await world.lease(task_id))
    await world.store.cancel(task_id, actor="user")
    assert (await world.reasons(task_id))[-1] == "cancelled"


@pytest.mark.parametrize(
    ("force", "wish"), [(False, CancelWish.GENTLY), (True, CancelWish.FORCE)], ids=str
)
async def test_a_running_task_only_gets_the_wish(
    world: World, force: bool, wish: CancelWish
) -> None:
    await world.make(Status.RUNNING)
    task_id = await world.make(Status.RUNNING)
    before = await world.store.record(task_id)
    task = await world.store.cancel(task_id, actor="user", force=force)
    assert (task.status, task.cancel) == (Status.RUNNING, wish)
    assert await world.store.wishes() == [task]
    after = await world.store.record(task_id)
    assert (after.history, after.attempts) == (before.history, before.attempts)


async def test_force_is_not_taken_back(world: World) -> None:
    task_id = await world.make(Status.RUNNING)
    wishes = [
        (await world.store.cancel(task_id, actor="user", force=force)).cancel
        for force in (False, True, False)
    ]
    assert wishes == [CancelWish.GENTLY, CancelWish.FORCE, CancelWish.FORCE]


async def test_wishes_come_in_the_order_of_arrival(world: World) -> None:
    ids = [await world.make(Status.RUNNING) for _ in range(3)]
    for task_id in reversed(ids):
        await world.store.cancel(task_id, actor="user")
    assert [task.id for task in await world.store.wishes()] == ids


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED, Status.CANCELLED])
async def test_a_finished_task_cannot_be_cancelled(
    world: World, dump: Callable[[], Any], status: Status
) -> None:
    task_id = await world.make(status)
    before = dump()
    with pytest.raises(IllegalMove, match=f"is {status} already"):
        await world.store.cancel(task_id, actor="user")
    assert dump() == before


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELLED])
async def test_a_failed_or_cancelled_task_can_be_retried(world: World, status: Status) -> None:
    task_id = await world.make(status)
    world.clock.advance(1000)
    task = await world.store.retry(task_id, actor="user")
    assert task == await world.store.get(task_id)
    assert (task.status, task.ready_at) == (Status.PENDING, world.clock.now())
    assert (task.completed_at, task.result, task.error, task.worker_id) == (None, None, None, None)
    assert (task.attempt_count, task.last_attempt) == (1, 1)
    assert (await world.reasons(task_id))[-1] == "retried by the user"
    lease = await world.lease(task_id)
    assert (lease.number, lease.task.attempt_count) == (2, 2)
    await world.complete(lease)


async def test_a_retry_can_begin_to_count_anew(world: World) -> None:
    task_id = await world.make(Status.FAILED)
    task = await world.store.retry(task_id, actor="user", reset_attempts=True)
    assert (task.attempt_count, task.last_attempt) == (0, 1)
    lease = await world.lease(task_id)
    assert (lease.number, lease.task.attempt_count) == (2, 1)


@pytest.mark.req("lld-17")
async def test_retrying_a_dead_letter_removes_it(world: World) -> None:
    one, other = await world.make(Status.FAILED), await world.make(Status.FAILED)
    await world.store.retry(one, actor="user")
    assert [letter.task_id for letter in await world.store.dead_letters()] == [other]
    assert await world.order() == [one]


async def test_a_task_that_fails_again_is_the_newest_letter_and_keeps_its_first_failure(
    world: World,
) -> None:
    one, other = await world.make(Status.FAILED), await world.make(Status.FAILED)
    first = world.clock.now()
    world.clock.advance(1000)
    await world.store.retry(one, actor="user")
    await world.fail(await world.lease(one))
    letters = await world.store.dead_letters()
    assert [letter.task_id for letter in letters] == [one, other]
    assert (letters[0].first_failure, letters[0].last_failure) == (first, world.clock.now())


async def test_a_cancelled_run_leaves_no_wish_behind_for_the_next(world: World) -> None:
    task_id = await world.add()
    lease = await world.lease(task_id)
    await world.store.cancel(task_id, actor="user", force=True)
    await world.finish(lease, Cancel())
    await world.store.retry(task_id, actor="user")
    assert (await world.lease(task_id)).task.cancel is None
    assert await world.store.wishes() == []


@pytest.mark.parametrize(
    "status", [Status.PENDING, Status.BLOCKED, Status.RUNNING, Status.COMPLETED]
)
async def test_nothing_else_can_be_retried(
    world: World, dump: Callable[[], Any], status: Status
) -> None:
    task_id = await world.make(status)
    before = dump()
    with pytest.raises(IllegalMove, match=f"is {status}; only failed and cancelled"):
        await world.store.retry(task_id, actor="user")
    assert dump() == before


@pytest.mark.req("lld-17")
async def test_a_dropped_letter_is_cancelled_for_good(world: World) -> None:
    task_id = await world.make(Status.FAILED)
    failed_at = world.clock.now()
    world.clock.advance(1000)
    task = await world.store.drop(task_id, actor="user")
    assert (task.status, task.error, task.completed_at) == (Status.CANCELLED, FAILURE, failed_at)
    assert await world.store.dead_letters() == []
    assert (await world.reasons(task_id))[-1] == "dropped from the dead letters"


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.FAILED])
async def test_only_a_dead_letter_can_be_dropped(
    world: World, dump: Callable[[], Any], status: Status
) -> None:
    task_id = await world.make(status)
    before = dump()
    with pytest.raises(IllegalMove, match="not a dead letter"):
        await world.store.drop(task_id, actor="user")
    assert dump() == before


@pytest.mark.parametrize("verb", ["cancel", "retry", "drop"])
async def test_a_task_that_is_not_there_is_said_to_be_so(world: World, verb: str) -> None:
    with pytest.raises(TaskNotFound, match=UNKNOWN):
        await getattr(world.store, verb)(UNKNOWN, actor="user")


async def test_the_history_names_who_wished(world: World) -> None:
    task_id = await world.add()
    await world.store.cancel(task_id, actor="alice")
    await world.store.retry(task_id, actor="bob")
    history = (await world.store.record(task_id)).history
    assert [move.actor for move in history] == ["user", "alice", "bob"]
