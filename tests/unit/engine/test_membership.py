"""A host among hosts: what it tells its workers, and when it takes over what others left."""

import asyncio
from typing import Any

import pytest

from acode.clock import ManualClock
from acode.engine import membership as module
from acode.engine import tenure as reckoning
from acode.engine.bell import Bell
from acode.engine.dispatcher import Dispatcher
from acode.engine.membership import Membership
from acode.engine.roster import Roster, Slot
from acode.engine.tenure import Tenure
from acode.errors import LeaseLost, StoreUnavailable
from acode.ids import new_id
from acode.model.event import PoolEvent, PoolNote
from acode.model.state import Status, WorkerStatus
from acode.model.task import Lease, Mode, Submission, TaskSpec
from acode.observe.events import Events
from acode.settings import Settings
from acode.store.base import Claim
from acode.store.memory import MemoryStore
from acode.worker.messages import Action, Control
from tests.conformance.kit import WORKER, host

LEASE = 30.0


class Shared(MemoryStore):
    """A store whose line can be cut, and in which others can be quicker."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.trouble: Exception | None = None
        self.joined = self.expired = 0
        self.left: list[Lease] = []

    async def join(self, host: Any, lease_ms: int) -> None:
        self.joined += 1
        await super().join(host, lease_ms)

    async def renew(self, host_id: str, pool: Any = None) -> frozenset[str]:
        if self.trouble is not None:
            raise self.trouble
        return await super().renew(host_id, pool)

    async def expire(self, host_id: str) -> list[Lease]:  # noqa: ARG002 -- there is one
        self.expired += 1
        left, self.left = self.left, []
        return left


class Wire:
    """Remembers what a worker was told."""

    def __init__(self) -> None:
        self.told: list[Control] = []

    def send(self, _kind: object, _id: str, payload: object) -> None:
        assert isinstance(payload, Control)
        self.told.append(payload)

    def close(self) -> None:
        return

    def take(self, action: Action) -> list[Control]:
        return [order for order in self.told if order.action is action]


class Stage:
    """A host with one worker, and a clock for all of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.up = 1000.0
        for each in (module, reckoning):
            monkeypatch.setattr(each, "uptime", lambda: self.up)
        self.clock = ManualClock()
        self.store = Shared(self.clock)
        self.said: list[PoolEvent] = []
        events = Events()
        events.subscribe(self.said.append)
        self.roster = Roster(events)
        self.host = host()
        self.tenure = Tenure(self.host.id, LEASE)
        dispatcher = Dispatcher(
            self.store, self.roster, None, Settings(), self.clock, events, None, self.tenure
        )  # type: ignore[arg-type]  # nothing is assigned here
        parts = (self.tenure, self.roster, dispatcher, events, Bell())
        self.membership = Membership(self.store, self.host, *parts, lambda: {"workers": []})
        self.wire = Wire()

    async def begin(self) -> Slot:
        """The worker has a task."""
        await self.membership.join()
        slot = self.roster.add(WORKER, Mode.PROCESS)
        slot.link = self.wire
        slot.status = WorkerStatus.IDLE
        slot.take(await self.lease())
        return slot

    async def lease(self) -> Lease:
        one = Submission(new_id(self.clock.now()), TaskSpec(command="true"))
        await self.store.add([one], actor="user", queue_size=10)
        wanted = Claim(1, lambda tasks: [WORKER] * len(tasks), (), self.host.id)
        (lease,) = await self.store.claim(wanted)
        return lease

    async def after(self, seconds: float) -> None:
        self.up += seconds
        await self.membership.tick()

    def notes(self) -> str:
        return "\n".join(event.message for event in self.said if isinstance(event, PoolNote))


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


async def test_every_renewal_gives_the_workers_more_time(stage: Stage) -> None:
    await stage.begin()
    for _ in range(3):
        await stage.after(10)
    untils = [order.data.until for order in stage.wire.take(Action.EXTEND)]
    assert untils == [stage.up - each + LEASE * reckoning.SAFE_SHARE for each in (20, 10, 0)]
    assert not stage.wire.take(Action.ABORT)


async def test_a_renewal_is_not_asked_for_more_often_than_needed(stage: Stage) -> None:
    await stage.begin()
    for _ in range(9):
        await stage.after(1)
    assert len(stage.wire.take(Action.EXTEND)) == 1


async def test_a_host_that_cannot_renew_ends_what_runs_once(stage: Stage) -> None:
    await stage.begin()
    stage.store.trouble = StoreUnavailable("away")
    for _ in range(40):
        await stage.after(1)
    assert stage.tenure.is_over
    (order,) = stage.wire.take(Action.ABORT)
    assert order.force
    assert stage.notes().count("cannot be renewed: away") == 1
    assert stage.notes().count("cut off") == 1
    stage.store.trouble = None
    await stage.after(1)
    assert not stage.tenure.is_over
    assert "answers again" in stage.notes()


async def test_a_host_whose_tasks_went_to_others_ends_them_and_joins_again(stage: Stage) -> None:
    await stage.begin()
    stage.store.trouble = LeaseLost("others have it")
    await stage.after(10)
    assert len(stage.wire.take(Action.ABORT)) == 1
    assert stage.store.joined == 2
    assert not stage.tenure.is_over


async def test_one_lease_that_is_gone_ends_one_attempt(stage: Stage) -> None:
    slot = await stage.begin()
    assert slot.lease is not None
    slot.lease = await stage.lease()
    gone = slot.lease.token
    await stage.store.cancel(slot.lease.task.id, actor="user")
    stage.store._entry(slot.lease.task.id).token = None
    await stage.after(10)
    assert [order.token for order in stage.wire.take(Action.ABORT)] == [gone]


async def test_a_worker_that_is_at_its_next_task_is_left_alone(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = await stage.begin()
    following = await stage.lease()
    renew = stage.store.renew

    async def renew_meanwhile(host_id: str, pool: Any = None) -> frozenset[str]:
        tokens = await renew(host_id, pool)
        before, slot.lease = slot.lease, following
        assert before is not None
        return tokens - {before.token}

    monkeypatch.setattr(stage.store, "renew", renew_meanwhile)
    await stage.after(10)
    assert not stage.wire.take(Action.ABORT)


async def test_a_claim_whose_answer_was_lost_is_released(stage: Stage) -> None:
    """Unknown once, it may be on its way; unknown twice, nobody here will ever work on it."""
    slot = await stage.begin()
    lost = await stage.lease()
    await stage.after(10)
    assert (await stage.store.get(lost.task.id)).status is Status.RUNNING
    await stage.after(10)
    await asyncio.gather(*stage.membership._background._running)
    task = await stage.store.get(lost.task.id)
    assert (task.status, task.attempt_count) == (Status.PENDING, 0)
    assert slot.lease is not None
    assert (await stage.store.get(slot.lease.task.id)).status is Status.RUNNING
    assert lost.task.id in stage.notes()


async def test_what_a_silent_host_left_is_lost_by_the_usual_policies(stage: Stage) -> None:
    await stage.begin()
    for _ in range(3):
        await stage.after(10)
    lease = await stage.lease()
    stage.store.left = [lease]
    await stage.after(10)
    await asyncio.gather(*stage.membership._background._running)
    task = await stage.store.get(lease.task.id)
    assert task.status is Status.PENDING
    assert task.error is not None
    assert task.error.code == "WORKER_CRASH"


async def test_others_get_a_whole_lease_to_come_back_after_an_outage(stage: Stage) -> None:
    await stage.begin()
    for _ in range(3):
        await stage.after(10)
    assert stage.store.expired == 1, "one lease after the start"
    stage.store.trouble = StoreUnavailable("away")
    await stage.after(10)
    stage.store.trouble = None
    for _ in range(3):
        await stage.after(10)
    assert stage.store.expired == 1
    await stage.after(10)
    assert stage.store.expired == 2
