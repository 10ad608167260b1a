"""What is told only when it is on disk."""

import asyncio

import pytest

from acode.clock import ManualClock
from acode.engine.dispatcher import Dispatcher
from acode.engine.outbox import Outbox
from acode.engine.roster import Roster
from acode.errors import AcodeError, StoreUnusable
from acode.ids import encode
from acode.model.event import PoolEvent, PoolNote
from acode.model.state import WorkerStatus
from acode.model.task import Lease, Mode, Submission, TaskSpec
from acode.observe.events import Events
from acode.settings import Settings
from acode.store.memory import MemoryStore
from tests.conformance.kit import WORKER


class Disk(MemoryStore):
    """A store whose disk takes as long as a test wants, or fails."""

    def __init__(self, *, settles_later: bool = True) -> None:
        super().__init__(ManualClock())
        self.settles_later = settles_later
        self.waits = 0
        self.failures = 0
        self.is_done = asyncio.Event()

    async def settled(self) -> None:
        self.waits += 1
        if self.failures:
            self.failures -= 1
            raise StoreUnusable("the disk is gone")
        await self.is_done.wait()


class Desk:
    def __init__(self, disk: Disk) -> None:
        self.told: list[PoolEvent] = []
        self.heard = asyncio.Event()
        self.complaints: list[AcodeError] = []
        events = Events()
        events.subscribe(self.told.append)
        events.subscribe(lambda _event: self.heard.set())
        self.outbox = Outbox(disk, events, self.complaints.append, 0.0)


def notes(*numbers: int) -> list[PoolEvent]:
    return [PoolNote("info", str(number)) for number in numbers]


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_nothing_is_told_before_it_is_on_disk() -> None:
    disk = Disk()
    desk = Desk(disk)
    desk.outbox.put(notes(1, 2))
    await turns()
    assert (desk.told, disk.waits) == ([], 1)
    disk.is_done.set()
    await turns()
    assert desk.told == notes(1, 2)


async def test_what_comes_while_the_disk_is_busy_waits_for_its_next_turn() -> None:
    disk = Disk()
    desk = Desk(disk)
    desk.outbox.put(notes(1))
    await turns()
    desk.outbox.put(notes(2))
    desk.outbox.put(notes(3))
    disk.is_done.set()
    await desk.outbox.close()
    assert desk.told == notes(1, 2, 3)
    assert disk.waits == 2, "what came together waits together"


async def test_with_a_pause_the_disk_is_asked_after_it_and_for_all() -> None:
    disk = Disk()
    disk.is_done.set()
    desk = Desk(disk)
    desk.outbox.pause = 3600.0
    for number in (1, 2, 3):
        desk.outbox.put(notes(number))
        await turns()
    assert (desk.told, disk.waits) == ([], 0)
    await desk.outbox.close()
    assert desk.told == notes(1, 2, 3)
    assert disk.waits == 1


async def test_what_waits_for_the_end_of_a_pause_is_told_then() -> None:
    disk = Disk()
    disk.is_done.set()
    desk = Desk(disk)
    desk.outbox.pause = 0.001
    for number in (1, 2):
        desk.outbox.put(notes(number))
        async with asyncio.timeout(10):
            await desk.heard.wait()
        desk.heard.clear()
        assert (desk.told, disk.waits) == (notes(*range(1, number + 1)), number)
    await desk.outbox.close()


async def test_where_a_commit_is_final_it_is_told_at_once() -> None:
    desk = Desk(Disk(settles_later=False))
    desk.outbox.put(notes(1))
    assert desk.told == notes(1)
    await desk.outbox.close()


async def test_a_disk_that_fails_is_complained_of_and_tried_again() -> None:
    disk = Disk()
    disk.failures = 2
    disk.is_done.set()
    desk = Desk(disk)
    desk.outbox.put(notes(1))
    await desk.outbox.close()
    assert desk.told == notes(1)
    assert [str(error) for error in desk.complaints] == ["the disk is gone"] * 2


@pytest.mark.parametrize("times", [1, 2])
async def test_an_empty_outbox_can_be_closed_again_and_again(times: int) -> None:
    desk = Desk(Disk())
    for _ in range(times):
        await desk.outbox.close()
    desk.outbox.put([])
    assert desk.told == []


# Who does not wait


class Wire:
    """Remembers which tasks a worker was given."""

    def __init__(self) -> None:
        self.given: list[str] = []

    def send(self, _kind: object, _id: str, payload: object) -> None:
        self.given.append(str(payload))

    def close(self) -> None:
        return


class Orders:
    def assignment(self, lease: Lease) -> str:
        return lease.task.id


@pytest.mark.parametrize(("retry_limit", "waits"), [(None, False), (3, False), (0, True)])
async def test_only_a_task_with_one_try_waits_for_its_claim(
    retry_limit: int | None, waits: bool
) -> None:
    disk, events, clock = Disk(), Events(), ManualClock()
    roster = Roster(events)
    dispatcher = Dispatcher(disk, roster, Orders(), Settings(), clock, events)
    slot, wire = roster.add(WORKER, Mode.PROCESS), Wire()
    slot.link, slot.status = wire, WorkerStatus.IDLE
    dispatcher.accepting = True
    one = Submission(encode(1), TaskSpec(command="true", retry_limit=retry_limit))
    await disk.add([one], actor="user", queue_size=10)
    looking = asyncio.ensure_future(dispatcher.tick())
    await turns()
    assert wire.given == ([] if waits else [one.id])
    disk.is_done.set()
    await looking
    assert wire.given == [one.id]
    await dispatcher.outbox.close()
