"""When the dispatcher looks again by itself."""

from acode.clock import ManualClock
from acode.engine import dispatcher as module
from acode.engine.dispatcher import Dispatcher
from acode.engine.roster import Roster, Slot
from acode.ids import encode
from acode.model.ending import Released
from acode.model.state import WorkerStatus
from acode.model.task import Lease, Mode, Submission, TaskSpec
from acode.observe.events import Events
from acode.settings import Settings
from acode.store.memory import MemoryStore
from acode.worker.messages import Ended
from tests.conformance.kit import WORKER


class Wire:
    """A worker that takes everything."""

    def send(self, _kind: object, _id: str, _payload: object) -> None:
        return

    def close(self) -> None:
        return


class Orders:
    def assignment(self, lease: Lease) -> str:
        return lease.task.id


async def busy_dispatcher() -> tuple[Dispatcher, Slot, MemoryStore]:
    """One with a worker that has a task."""
    clock, events = ManualClock(), Events()
    store, roster = MemoryStore(clock), Roster(events)
    dispatcher = Dispatcher(store, roster, Orders(), Settings(), clock, events)
    slot = roster.add(WORKER, Mode.PROCESS)
    slot.link, slot.status = Wire(), WorkerStatus.IDLE
    dispatcher.accepting = True
    one = Submission(encode(1), TaskSpec(command="true"))
    await store.add([one], actor="user", queue_size=10)
    await dispatcher.tick()
    return dispatcher, slot, store


async def test_a_setback_is_waited_for_and_no_longer() -> None:
    """What was submitted meanwhile rang when nothing could be begun, and does not ring again."""
    dispatcher, slot, store = await busy_dispatcher()
    lease = slot.lease
    assert lease is not None
    setback = Ended(
        task_id=lease.task.id,
        token=lease.token,
        number=lease.number,
        ending=Released("the machine could not start it"),
        ended_at=0,
        setback="no memory",
    )
    await dispatcher.ended(slot, setback)
    assert dispatcher.backpressure == "no task can be started: no memory"
    await store.cancel(lease.task.id, actor="user")  # nothing else makes it look again
    rests = [await dispatcher.tick() for _ in range(20)]
    assert max(rests) <= module.SETBACK_SECONDS
    assert min(rests) > 0
