"""Claiming: who is next, and that nobody else gets it."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acode.clock import ManualClock
from acode.model.priority import Priority, aged_level
from acode.model.state import Status
from acode.model.task import Task
from acode.store.base import Circuit, Claim, Store, TaskQuery, WholeKind
from acode.store.memory import MemoryStore
from acode.store.sqlite import SqliteStore
from tests.conformance.kit import MINUTE, PLENTY, WORKER, World, at_once, submission

HIGH, MEDIUM, LOW, BACKGROUND = Priority


async def test_an_empty_queue_gives_nothing(world: World) -> None:
    assert await world.claim(10) == []


async def test_a_lease_says_everything_about_the_attempt(world: World) -> None:
    task_id = await world.add(title="one")
    world.clock.advance(5)
    lease = await world.lease(task_id)
    assert lease.task == await world.store.get(task_id)
    assert lease.task.status is Status.RUNNING
    assert (lease.task.started_at, lease.task.worker_id) == (world.clock.now(), WORKER)
    assert (lease.number, lease.worker_id, lease.steps) == (1, WORKER, {})
    assert (lease.task.attempt_count, lease.task.last_attempt) == (1, 1)
    (attempt,) = (await world.store.record(task_id)).attempts
    assert (attempt.number, attempt.worker_id) == (1, WORKER)
    assert (attempt.started_at, attempt.ended_at) == (world.clock.now(), None)


async def test_the_history_names_the_worker(world: World) -> None:
    lease = await world.lease(await world.add())
    move = (await world.store.record(lease.task.id)).history[-1]
    assert (move.was, move.became) == (Status.PENDING, Status.RUNNING)
    assert (move.actor, move.reason) == (f"worker-{WORKER}", "attempt 1")


@pytest.mark.req("forge-02", "lld-11")
async def test_the_four_levels_are_strict_and_each_is_first_come_first_served(
    world: World,
) -> None:
    levels = [LOW, BACKGROUND, HIGH, MEDIUM, HIGH, LOW, MEDIUM, BACKGROUND]
    ids = [await world.add(priority=level) for level in levels]
    in_turn = sorted(range(8), key=lambda place: (levels[place].level, place))
    assert await world.order() == [ids[place] for place in in_turn]


@pytest.mark.req("lld-11")
async def test_a_higher_one_that_comes_later_goes_first(world: World) -> None:
    low = await world.add(priority=LOW)
    world.clock.advance(9 * MINUTE)
    high = await world.add(priority=HIGH)
    assert await world.order() == [high, low]


async def test_waiting_raises_a_task_by_one_level_every_ten_minutes(world: World) -> None:
    old = await world.add(priority=BACKGROUND)
    world.clock.advance(20 * MINUTE - 1)
    medium = await world.add(priority=MEDIUM)
    lease = await world.lease(medium)
    await world.release(lease)
    world.clock.advance(1)
    assert await world.order() == [old, medium]


async def test_nothing_rises_above_high(world: World) -> None:
    """Old ones that reached the top stand in line with the others there."""
    high = await world.add(priority=HIGH)
    world.clock.advance(1)
    old = await world.add(priority=BACKGROUND)
    world.clock.advance(1000 * MINUTE)
    young = await world.add(priority=HIGH)
    assert await world.order() == [high, old, young]


Wait = tuple[Priority, int]
WAITS = st.lists(
    st.tuples(st.sampled_from(Priority), st.integers(0, 60 * MINUTE)), min_size=1, max_size=12
)


@pytest.mark.parametrize("engine_name", ["memory", "sqlite"])
@given(waits=WAITS, ageing=st.sampled_from([0, 1, 1000, MINUTE, 10 * MINUTE]), limit=st.integers(1))
def test_the_order_is_exactly_that_of_the_model(
    engine_name: str, waits: list[Wait], ageing: int, limit: int
) -> None:
    clock = ManualClock()
    store = open_with_ageing(engine_name, clock, ageing)
    waits = sorted(waits, key=lambda wait: wait[1], reverse=True)
    end = clock.now() + waits[0][1]
    ids = []
    for priority, waited in waits:
        clock.advance(end - waited - clock.now())
        ids.append(at_once(World(store, clock).add(priority=priority)))
    clock.advance(end - clock.now())
    leases = at_once(World(store, clock).claim(min(limit, PLENTY)))
    ranks = [
        (aged_level(priority.level, waited, ageing), -waited, place)
        for place, (priority, waited) in enumerate(waits)
    ]
    assert [lease.task.id for lease in leases] == [ids[rank[2]] for rank in sorted(ranks)][:limit]
    at_once(store.close())


def open_with_ageing(name: str, clock: ManualClock, ageing: int) -> Store:
    if name == "memory":
        return MemoryStore(clock, ageing_ms=ageing)
    return SqliteStore.open(":memory:", clock, ageing_ms=ageing, grouped=False)


async def test_a_task_that_was_given_back_stands_at_the_end_of_its_line(world: World) -> None:
    first, second = await world.add(), await world.add()
    lease = await world.lease(first)
    world.clock.advance(1)
    await world.release(lease)
    assert await world.order() == [second, first]


@pytest.mark.parametrize("limit", [0, -1])
async def test_no_limit_no_lease(world: World, limit: int) -> None:
    await world.add()
    assert await world.claim(limit) == []


async def test_no_more_than_the_limit(world: World) -> None:
    ids = [await world.add() for _ in range(5)]
    assert [lease.task.id for lease in await world.claim(2)] == ids[:2]
    assert [lease.task.id for lease in await world.claim(2)] == ids[2:4]
    assert [lease.task.id for lease in await world.claim(2)] == ids[4:]


# Circuits


@pytest.mark.parametrize("workstream", [None, "docs"])
async def test_a_held_circuit_holds_only_its_own(world: World, workstream: str | None) -> None:
    specs = [
        {"type": kind, "workstream_id": stream}
        for kind in ("shell", "script")
        for stream in (None, "docs", "code")
    ]
    ids = [await world.add(**spec) for spec in specs]
    held = Circuit("shell", workstream)
    leases = await world.claim(PLENTY, {held})
    passed = [i for i, s in zip(ids, specs, strict=True) if tuple(s.values()) != held]
    assert [lease.task.id for lease in leases] == passed
    (left,) = await world.order()
    assert left not in passed


async def test_several_circuits_can_be_held(world: World) -> None:
    await world.add(type="shell")
    await world.add(type="shell", workstream_id="docs")
    free = await world.add(type="script")
    held = [Circuit("shell", None), Circuit("shell", "docs")]
    assert [lease.task.id for lease in await world.claim(PLENTY, held)] == [free]


async def test_a_kind_can_be_held_in_every_workstream(world: World) -> None:
    for stream in (None, "docs", "code"):
        await world.add(type="claude-code", workstream_id=stream)
    free = [await world.add(type="shell"), await world.add(type="script", workstream_id="docs")]
    held = [WholeKind("claude-code"), Circuit("script", None)]
    assert [lease.task.id for lease in await world.claim(2, held)] == free
    assert len(await world.claim(PLENTY)) == 3


async def test_the_circuit_of_a_python_task_is_its_handler(world: World) -> None:
    await world.add(type="python", command="summarise")
    assert await world.claim(1, [Circuit("summarise", None)]) == []
    assert len(await world.claim(1, [Circuit("python", None)])) == 1


async def test_a_held_task_burns_no_attempt_and_keeps_its_place(world: World) -> None:
    held = await world.add(type="shell")
    world.clock.advance(1)
    later = await world.add(type="script")
    assert (await world.claim(1, [Circuit("shell", None)]))[0].task.id == later
    task = await world.store.get(held)
    assert (task.status, task.attempt_count, task.last_attempt) == (Status.PENDING, 0, 0)
    assert len((await world.store.record(held)).history) == 1


# Pause


async def test_a_paused_queue_gives_nothing_until_it_goes_on(world: World) -> None:
    task_id = await world.add()
    assert await world.store.pause(True, actor="user") is True
    assert (await world.store.counts()).paused
    assert await world.claim() == []
    assert await world.store.pause(False, actor="user") is True
    assert not (await world.store.counts()).paused
    await world.lease(task_id)


@pytest.mark.parametrize("paused", [True, False])
async def test_pausing_twice_changes_nothing(world: World, paused: bool) -> None:
    await world.store.pause(paused, actor="user")
    assert await world.store.pause(paused, actor="another") is False
    assert (await world.store.counts()).paused is paused


# Assignment


async def test_the_assignment_sees_the_tasks_in_their_order_and_names_the_workers(
    world: World,
) -> None:
    ids = [await world.add(priority=priority) for priority in (LOW, HIGH)]
    seen: list[str] = []

    def assign(tasks: Sequence[Task]) -> list[str | None]:
        seen.extend(task.id for task in tasks)
        return [f"W{place}" for place in range(len(tasks))]

    leases = await world.store.claim(Claim(5, assign))
    assert seen == ids[::-1]
    assert [(lease.task.id, lease.worker_id) for lease in leases] == [
        (ids[1], "W0"),
        (ids[0], "W1"),
    ]
    assert (await world.store.get(ids[1])).worker_id == "W0"


async def test_the_assignment_may_leave_tasks_alone(world: World) -> None:
    ids = [await world.add() for _ in range(4)]
    choice: list[str | None] = [None, WORKER, None, WORKER]
    leases = await world.store.claim(Claim(4, lambda _: choice))
    assert [lease.task.id for lease in leases] == [ids[1], ids[3]]
    assert await world.order() == [ids[0], ids[2]]


async def test_the_assignment_is_not_asked_about_nothing(world: World) -> None:
    def assign(tasks: Sequence[Task]) -> list[str | None]:
        raise AssertionError("asked")

    assert await world.store.claim(Claim(1, assign)) == []


@pytest.mark.parametrize("answer", [[], [WORKER], [WORKER] * 3], ids=len)
async def test_an_assignment_that_does_not_fit_leases_nothing(
    world: World, answer: list[str]
) -> None:
    ids = [await world.add(), await world.add()]
    with pytest.raises(ValueError, match="zip"):
        await world.store.claim(Claim(2, lambda _: answer))
    assert await world.order() == ids


async def test_an_assignment_that_fails_loses_nothing(world: World) -> None:
    ids = [await world.add(), await world.add()]

    def assign(tasks: Sequence[Task]) -> list[str | None]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await world.store.claim(Claim(2, assign))
    assert await world.order() == ids


# Nobody gets what another one has


@pytest.mark.req("027-FR-034", "027-FR-035")
async def test_claims_at_once_share_nothing(world: World) -> None:
    ids = [one.id for one in await world.add_all(*[submission() for _ in range(100)])]
    hauls = await asyncio.gather(*[world.claim(7) for _ in range(20)])
    leases = [lease for haul in hauls for lease in haul]
    assert sorted(lease.task.id for lease in leases) == sorted(ids)
    assert len({lease.token for lease in leases}) == 100


@pytest.mark.req("027-FR-035")
async def test_a_running_task_is_not_given_out_again(world: World) -> None:
    await world.lease(await world.add())
    world.clock.advance(1000 * MINUTE)
    assert await world.claim(10) == []


async def test_a_task_that_was_cancelled_and_retried_at_once_is_given_out_once(
    world: World,
) -> None:
    task_id = await world.add()
    await world.store.cancel(task_id, actor="user")
    await world.store.retry(task_id, actor="user")
    assert await world.order() == [task_id]


async def test_leases_that_are_out_can_be_listed_and_used(world: World) -> None:
    """A new daemon finds out what runs, and may write its end."""
    for status in (Status.COMPLETED, Status.FAILED, Status.RUNNING, Status.RUNNING):
        await world.make(status)
    await world.add()
    first, second = await world.store.leases()
    assert [first.task, second.task] == await world.store.find(
        TaskQuery(statuses=(Status.RUNNING,))
    )
    assert (first.number, first.worker_id) == (1, WORKER)
    await world.complete(second)
    await world.release(first)
    assert await world.store.leases() == []
