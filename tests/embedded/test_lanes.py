"""How many attempts are out at once."""

import asyncio
from typing import Any

import pytest

import acode
from acode.clock import ManualClock
from acode.embedded.lanes import DEEPEST, Lanes
from acode.engine.roster import Roster, Slot
from acode.model.state import Status, WorkerStatus
from acode.model.task import Lease, Task, TaskSpec
from acode.observe.events import Events
from tests.embedded.conftest import Bench, until

WORKERS = ("a", "b")


class Nowhere:
    """A way that leads nowhere."""

    def send(self, *_: object) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def roster() -> Roster:
    return Roster(Events())


@pytest.fixture
def lanes(roster: Roster) -> Lanes:
    lanes = Lanes(roster, ManualClock(), lambda _slot: Nowhere(), WORKERS)
    for worker in WORKERS:
        lanes.open_for(worker)
    return lanes


def give(slot: Slot) -> None:
    task = Task(id="x", spec=TaskSpec(command="x"), status=Status.RUNNING, created_at=0, ready_at=0)
    slot.take(Lease(task=task, number=1, token="t", worker_id=slot.id))


def finish(slot: Slot) -> None:
    slot.lease = None
    slot.move(WorkerStatus.IDLE)


def test_there_is_one_lane_for_each_worker(lanes: Lanes, roster: Roster) -> None:
    assert not lanes.widen(), "nobody knows yet how long attempts take"
    assert [slot.id for slot in roster.free()] == list(WORKERS)
    assert lanes.depth == 1


def test_while_more_tasks_wait_there_are_twice_as_many_each_time(
    lanes: Lanes, roster: Roster
) -> None:
    lanes.suit(0.01)
    sizes = []
    while lanes.widen():
        sizes.append(len(roster))
    assert sizes == [4, 8, 16, 32, 64, 128]
    assert len(roster) == len(WORKERS) * DEEPEST
    assert lanes.depth == DEEPEST


def test_long_attempts_get_no_more_lanes(lanes: Lanes) -> None:
    lanes.suit(5.0)
    assert not lanes.widen()


def test_a_lane_that_finds_nothing_is_closed_and_can_be_opened_again(
    lanes: Lanes, roster: Roster
) -> None:
    lanes.suit(0.01)
    lanes.widen()
    first = {slot.id for slot in roster}
    busy = next(slot for slot in roster if slot.id not in WORKERS)
    give(busy)
    lanes.narrow()
    assert {slot.id for slot in roster} == {*WORKERS, busy.id}, "what is in use stays"
    finish(busy)
    lanes.idle(busy)
    assert {slot.id for slot in roster} == set(WORKERS)
    assert lanes.depth == 1
    lanes.widen()
    assert {slot.id for slot in roster} == first


def test_when_attempts_get_longer_lanes_take_nothing_more(lanes: Lanes, roster: Roster) -> None:
    lanes.suit(0.01)
    while lanes.widen():
        pass
    lanes.suit(4.0)
    assert len([slot for slot in roster if not slot.leaving]) == 2 * len(WORKERS)
    lanes.narrow()
    assert len(roster) == len(WORKERS), "those that take nothing more are closed, too"


async def test_an_idle_pool_has_one_lane_for_each_worker(on_disk: Bench) -> None:
    async with on_disk.pool(workers=2, queue_size=1000) as pool:
        seen: list[int] = []
        for _ in range(3):
            handles = await pool.submit_many(short, [()] * 300)
            for handle in handles:
                await handle.result(timeout=60)
                seen.append(len(roster_of(pool)))
        assert max(seen) > 2
        await until(lambda: len(roster_of(pool)) == 2)
        assert pool._heart is not None
        pool._heart.crew.lanes.suit(0.01)
        assert pool._heart.crew.lanes.widen(), "attempts are short"
        pool._heart.bell.ring()
        await until(lambda: len(roster_of(pool)) == 2)


@acode.handler("short")
async def short(ctx: acode.Context) -> None:
    await asyncio.sleep(0)


def roster_of(pool: acode.Pool) -> Any:
    assert pool._heart is not None
    return pool._heart._roster
