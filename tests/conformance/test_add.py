"""Adding: whole or not at all, in any order, and safe to repeat."""

import asyncio
from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest

from acode.errors import AcodeError, InvalidTask, QueueFull, TaskNotFound
from acode.ids import encode, new_id
from acode.model.priority import Priority
from acode.model.state import Status
from acode.model.task import Mode, Submission, TaskLimits, TaskSpec, WorkspaceKind
from acode.model.verdict import Cancel
from acode.store.base import Added
from tests.conformance.kit import PLENTY, World, submission

FULL_SPEC = TaskSpec(
    command="summarise",
    args=("doc-1", "ünïcode 🦀", ""),
    type="python",
    title="Everything, set",
    priority=Priority.BACKGROUND,
    workstream_id="docs",
    env={"LANG": "C", "EMPTY": ""},
    timeout_seconds=1.5,
    retry_limit=0,
    mode=Mode.DOCKER,
    workspace=WorkspaceKind.SCRATCH,
    base="main",
    cwd="sub/dir",
    artifacts=("*.txt",),
    key="only-one",
    delay_seconds=2.5,
    limits=TaskLimits(memory_mb=1, cpu_percent=0.5, disk_mb=3),
    metadata={"documentId": "d", "deep": [1, {"x": None}, 2.5, True]},
)


async def test_a_task_is_kept_as_it_was_written(world: World) -> None:
    added = await world.add_all(Submission(encode(1), FULL_SPEC))
    assert added == [Added(encode(1), Status.PENDING)]
    task = await world.store.get(encode(1))
    assert task.spec == FULL_SPEC
    assert task.created_at == world.clock.now()
    assert task.ready_at == world.clock.now() + 2_500
    assert (task.attempt_count, task.last_attempt) == (0, 0)
    assert (task.started_at, task.completed_at, task.worker_id) == (None, None, None)
    assert (task.result, task.error, task.cancel) == (None, None, None)


async def test_being_added_is_the_first_move(world: World) -> None:
    task_id = await world.add()
    (move,) = (await world.store.record(task_id)).history
    assert (move.was, move.became) == (None, Status.PENDING)
    assert (move.at, move.actor, move.reason) == (world.clock.now(), "user", "added")


async def test_the_bell_is_rung_once_for_a_batch_and_then_the_tasks_are_found(
    world: World,
) -> None:
    """The bell may be rung before they are stored; whoever hears it claims after that."""
    rung = asyncio.Event()
    loop = asyncio.get_running_loop()
    rings: list[None] = []

    def ring() -> None:  # in any thread
        rings.append(None)
        loop.call_soon_threadsafe(rung.set)

    async def claim() -> int:
        await rung.wait()
        return len(await world.claim(10))

    claiming = asyncio.create_task(claim())
    await asyncio.sleep(0)
    batch = [submission() for _ in range(3)]
    await world.store.add(batch, actor="user", queue_size=PLENTY, ring=ring)
    assert await claiming == 3
    assert rings == [None]


async def test_nothing_at_all_can_be_added(world: World) -> None:
    assert await world.add_all(queue_size=0) == []


async def test_a_batch_comes_in_its_order(world: World) -> None:
    batch = [submission(title=str(number)) for number in range(200)]
    added = await world.add_all(*batch)
    assert [one.id for one in added] == [one.id for one in batch]
    assert await world.order() == [one.id for one in batch]


async def test_ids_need_not_rise(world: World) -> None:
    """First come, first served: by arrival, whatever the ids say."""
    late, early = encode(2), encode(1)
    await world.add(id=late)
    await world.add(id=early)
    assert await world.order() == [late, early]


OWN_ID = new_id(0)


@pytest.mark.parametrize(
    ("error", "batch"),
    [
        (TaskNotFound, [submission(), submission(dependencies=(encode(7),))]),
        (InvalidTask, [submission(), submission(id=OWN_ID, dependencies=(OWN_ID,))]),
        (QueueFull, [submission() for _ in range(4)]),
    ],
    ids=["unknown need", "needs itself", "too many"],
)
async def test_a_batch_is_stored_whole_or_not_at_all(
    world: World, dump: Callable[[], Any], error: type[AcodeError], batch: list[Submission]
) -> None:
    await world.add()
    before = dump()
    with pytest.raises(error):
        await world.add_all(*batch, queue_size=4)
    assert dump() == before


async def test_the_queue_fills_to_the_last_place_and_refuses_at_once(world: World) -> None:
    await world.add_all(submission(), submission(), queue_size=3)
    await world.add_all(submission(), queue_size=3)
    with pytest.raises(QueueFull, match="3 tasks wait and the queue holds 3; 1 more"):
        await world.add_all(submission(), queue_size=3)


async def test_blocked_tasks_wait_too_but_running_and_finished_ones_do_not(world: World) -> None:
    await world.make(Status.COMPLETED)
    await world.make(Status.RUNNING)
    need = await world.add(delay_seconds=60)
    await world.add(dependencies=(need,))
    await world.add_all(submission(), queue_size=3)
    with pytest.raises(QueueFull):
        await world.add_all(submission(), queue_size=3)


async def test_a_delayed_task_waits_for_its_time(world: World) -> None:
    task_id = await world.add(delay_seconds=0.25)
    world.clock.advance(249)
    assert await world.claim() == []
    world.clock.advance(1)
    await world.lease(task_id)


# Keys


async def test_a_key_that_exists_gives_the_task_that_has_it(world: World) -> None:
    first = await world.add(key="nightly", title="first")
    again = await world.add_all(submission(key="nightly", title="second"))
    assert again == [Added(first, Status.PENDING, existed=True)]
    assert [record.task.spec.title for record in await world.everything()] == ["first"]


@pytest.mark.parametrize("status", Status)
async def test_a_key_is_taken_whatever_became_of_its_task(world: World, status: Status) -> None:
    task_id = await world.make(status, key="nightly")
    assert await world.add_all(submission(key="nightly")) == [Added(task_id, status, existed=True)]


async def test_a_key_counts_once_within_a_batch_too(world: World) -> None:
    first, second, third = submission(key="a"), submission(key="a"), submission(key="b")
    assert await world.add_all(first, second, third) == [
        Added(first.id, Status.PENDING),
        Added(first.id, Status.PENDING, existed=True),
        Added(third.id, Status.PENDING),
    ]
    assert await world.order() == [first.id, third.id]


async def test_a_dependent_of_a_keyed_task_waits_for_the_one_that_exists(world: World) -> None:
    there = await world.add(key="build")
    again = submission(key="build")
    test = submission(dependencies=(again.id,))
    added = await world.add_all(test, again)
    assert added == [Added(test.id, Status.BLOCKED), Added(there, Status.PENDING, existed=True)]
    assert (await world.store.get(test.id)).spec.dependencies == (there,)
    await world.complete(await world.lease(there))
    assert await world.status(test.id) is Status.PENDING


async def test_a_dependent_of_a_keyed_task_that_is_completed_does_not_wait(world: World) -> None:
    there = await world.make(Status.COMPLETED, key="build")
    again = submission(key="build")
    test = submission(dependencies=(again.id, there))
    assert (await world.add_all(again, test))[1] == Added(test.id, Status.PENDING)
    assert (await world.store.get(test.id)).spec.dependencies == (there,)


async def test_a_key_that_exists_needs_no_room(world: World) -> None:
    await world.add(key="nightly")
    assert (await world.add_all(submission(key="nightly"), queue_size=1))[0].existed


async def test_a_batch_can_be_sent_again(world: World, dump: Callable[[], Any]) -> None:
    """Who got no answer repeats the call; ids are given before, so nothing is there twice."""
    first = submission()
    batch = [first, submission(dependencies=(first.id,)), submission(key="k")]
    done = await world.add_all(*batch, queue_size=3)
    before = dump()
    assert await world.add_all(*batch, queue_size=3) == [one._replace(existed=True) for one in done]
    assert dump() == before


async def test_ids_may_come_in_any_order(world: World) -> None:
    low, middle, high = (submission(id=encode(number)) for number in (1, 2, 3))
    await world.add_all(low, high)
    added = await world.add_all(high, middle, low)
    assert [one.existed for one in added] == [True, False, True]


async def test_an_id_counts_once_within_a_batch(world: World) -> None:
    one = submission()
    added = await world.add_all(one, one)
    assert [each.existed for each in added] == [False, True]
    assert await world.order() == [one.id]


# Dependencies


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
async def test_a_batch_may_name_its_dependencies_in_any_order(
    world: World, order: tuple[int, ...]
) -> None:
    first = submission(title="first")
    second = submission(title="second", dependencies=(first.id,))
    third = submission(title="third", dependencies=(second.id, first.id))
    chain = [first, second, third]
    await world.add_all(*[chain[place] for place in order])
    assert [await world.status(one.id) for one in chain] == [
        Status.PENDING,
        Status.BLOCKED,
        Status.BLOCKED,
    ]
    for one in chain:
        await world.complete(await world.lease(one.id))


async def test_a_dependency_that_is_named_twice_counts_once(world: World) -> None:
    need = await world.add()
    task_id = await world.add(dependencies=(need, need))
    assert (await world.store.get(task_id)).spec.dependencies == (need,)
    await world.complete(await world.lease(need))
    await world.lease(task_id)


@pytest.mark.parametrize(
    ("need", "status"),
    [
        (Status.PENDING, Status.BLOCKED),
        (Status.BLOCKED, Status.BLOCKED),
        (Status.RUNNING, Status.BLOCKED),
        (Status.COMPLETED, Status.PENDING),
        (Status.FAILED, Status.BLOCKED),
        (Status.CANCELLED, Status.BLOCKED),
    ],
)
async def test_a_task_waits_unless_its_need_is_completed(
    world: World, need: Status, status: Status
) -> None:
    needed = await world.make(need)
    added = await world.add_all(submission(dependencies=(needed,)))
    assert added[0].status is status


async def test_an_archived_task_that_completed_can_be_waited_for(world: World) -> None:
    need = await world.make(Status.COMPLETED)
    await archive_all(world)
    added = await world.add_all(submission(dependencies=(need,)))
    assert added[0].status is Status.PENDING
    assert (await world.store.get(added[0].id)).spec.dependencies == (need,)


async def test_an_archived_task_that_was_cancelled_cannot(world: World) -> None:
    need = await world.add()
    await world.finish(await world.lease(need), Cancel())
    await archive_all(world)
    with pytest.raises(InvalidTask, match="cancelled long ago"):
        await world.add(dependencies=(need,))


async def archive_all(world: World) -> None:
    world.clock.advance(1)
    now = world.clock.now()
    assert (await world.store.tidy(finished_before=now, steps_before=now)).archived


async def test_tasks_cannot_wait_for_each_other_by_way_of_a_key(world: World) -> None:
    """Two ids, one key, one task: waiting for the other would be waiting for itself."""
    other = submission(key="same")
    one = submission(key="same", dependencies=(other.id,))
    with pytest.raises(InvalidTask, match="itself"):
        await world.add_all(one, other)
    assert await world.everything() == []
