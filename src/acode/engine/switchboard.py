"""The wires to the workers: calling them, hearing them, calling again when a wire breaks."""

import asyncio
from collections.abc import Callable

from acode.clock import Clock
from acode.engine.background import Background
from acode.engine.bell import Bell
from acode.engine.dispatcher import Dispatcher
from acode.engine.harbour import Harbour
from acode.engine.link import connect_worker
from acode.engine.monitor import with_peak
from acode.engine.roster import Slot
from acode.errors import AcodeError, WorkerStartFailed
from acode.model.event import LimitExceeded, PoolNote
from acode.observe.events import Events
from acode.runner.identity import is_alive
from acode.worker.messages import Ended, Exceeded, Heartbeat, Note
from acode.worker.wire import Frame, FrameType, unpack

GREETING_SECONDS = 10.0
"""A worker that has not greeted by then did not start."""
RECALL_SECONDS = 0.05
"""How long a worker whose wire broke has to be found dead before it is called again."""

OnGreeting = Callable[[Heartbeat], None]


class Switchboard:
    """Talks to the workers for everybody else."""

    def __init__(
        self,
        run_dir: str,
        dispatcher: Dispatcher,
        clock: Clock,
        events: Events,
        bell: Bell,
        background: Background,
        on_free: Callable[[Slot], None],
        harbour: Harbour,
    ) -> None:
        self._run_dir = run_dir
        self._dispatcher = dispatcher
        self._clock = clock
        self._events = events
        self._bell = bell
        self._background = background
        self._on_free = on_free
        self._harbour = harbour
        self._greetings: dict[str, tuple[asyncio.Future[Heartbeat], OnGreeting]] = {}

    async def call(self, slot: Slot, heed: OnGreeting = lambda _hello: None) -> Heartbeat:
        """Call a worker at its socket and hear what it is doing."""
        greeting: asyncio.Future[Heartbeat] = asyncio.get_running_loop().create_future()
        self._greetings[slot.id] = (greeting, heed)
        try:
            link = await connect_worker(
                f"{self._run_dir}/workers/{slot.id}.sock",
                self._clock,
                lambda frame: self._on_frame(slot, frame),
                lambda: self._on_hung_up(slot),
            )
            slot.link = self._harbour.port(slot, link, self._ended)
            return await asyncio.wait_for(greeting, GREETING_SECONDS)
        finally:
            self._greetings.pop(slot.id, None)

    def is_gone(self, slot: Slot) -> bool:
        """The worker has died; whether somebody was waiting for its greeting and knows now."""
        greeting, _ = self._greetings.get(slot.id, (None, None))
        if greeting is None or greeting.done():
            return False
        greeting.set_exception(WorkerStartFailed("the worker ended at once"))
        return True

    def _on_frame(self, slot: Slot, frame: Frame) -> None:
        slot.heard(self._clock.now())
        match frame.type:
            case FrameType.RESULT:
                self._background.spawn(self._ended(slot, unpack(frame, Ended)))
            case FrameType.HEARTBEAT:
                self._on_heartbeat(slot, unpack(frame, Heartbeat))
            case FrameType.LIMIT:
                found = unpack(frame, Exceeded)
                self._events.emit(
                    LimitExceeded.of(found.task_id, slot.id, found.over, found.action)
                )
            case FrameType.ERROR | FrameType.LOG:
                note = unpack(frame, Note)
                self._events.emit(PoolNote(note.level, f"worker-{slot.id}: {note.message}"))
            case _:
                self._events.emit(PoolNote("error", f"worker-{slot.id} sent {frame.type}"))

    def _on_heartbeat(self, slot: Slot, beat: Heartbeat) -> None:
        slot.enforced, slot.counts, slot.disk_bytes = beat.enforced, beat.counts, beat.disk_bytes
        greeting, heed = self._greetings.get(slot.id, (None, None))
        if greeting is not None and heed is not None and not greeting.done():
            heed(beat)
            greeting.set_result(beat)

    async def _ended(self, slot: Slot, ended: Ended) -> None:
        if ended.spent:
            self._harbour.spend(slot.id)
        await self._dispatcher.ended(slot, with_peak(slot, ended))
        if slot.lease is not None:
            return  # it has its next task already
        self._on_free(slot)
        self._bell.ring()

    def _on_hung_up(self, slot: Slot) -> None:
        if slot.link is None:
            return  # it was us
        slot.link = None
        if slot.id not in self._greetings:
            self._background.spawn(self._call_again(slot))

    async def _call_again(self, slot: Slot) -> None:
        """A wire that broke while the worker lives is made anew; its death is noticed elsewhere."""
        await asyncio.sleep(RECALL_SECONDS)
        if slot.process is None or slot.link is not None or not is_alive(slot.process):
            return
        try:
            hello = await self.call(slot)
        except (AcodeError, OSError, TimeoutError):
            return  # a worker that does not answer hangs, and is found by its silence
        self._events.emit(PoolNote("warning", f"the wire to worker-{slot.id} broke; it is back"))
        if slot.lease is None or (hello.current and hello.current.token == slot.lease.token):
            self._bell.ring()
        elif hello.ended is not None and hello.ended.token == slot.lease.token:
            await self._ended(slot, hello.ended)
        else:
            await self._dispatcher.recalled(slot, "the order never reached its worker")
