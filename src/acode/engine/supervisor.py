"""The lives of workers: start, adopt, notice death at once, restart, replace, stop."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from acode.clock import Clock
from acode.engine.background import Background
from acode.engine.bell import Bell
from acode.engine.dispatcher import Dispatcher
from acode.engine.harbour import Harbour
from acode.engine.remains import remove_remains
from acode.engine.roster import Roster, Slot
from acode.engine.switchboard import OnGreeting, Switchboard
from acode.engine.zygote import ZygoteHandle, open_pidfd
from acode.errors import AcodeError, WorkerStartFailed
from acode.ids import new_id
from acode.model.event import (
    PoolNote,
    WorkerCrashed,
    WorkerFailed,
    WorkerStarted,
    WorkerStopped,
)
from acode.model.state import WorkerStatus
from acode.model.task import Lease, Mode
from acode.model.worker import ProcessIdentity
from acode.observe.events import Events
from acode.policy.restart import GiveUp, Restart, RestartAfter, after_crash, consecutive
from acode.runner.identity import is_alive
from acode.runner.tree import kill_marked
from acode.worker import spool
from acode.worker.config import WorkerConfig
from acode.worker.exits import ExitCode
from acode.worker.messages import Action, Control, Exited, Heartbeat, Why
from acode.worker.places import keep_checkpoint
from acode.worker.wire import FrameType

EXIT_CODE_POLLS = 20
EXIT_CODE_POLL_SECONDS = 0.005


class Supervisor:
    """Owns the processes of the pool."""

    def __init__(
        self,
        roster: Roster,
        dispatcher: Dispatcher,
        zygote_environ: dict[str, str],
        config: WorkerConfig,
        restart: Restart,
        clock: Clock,
        events: Events,
        bell: Bell,
        harbour: Harbour,
    ) -> None:
        self._harbour = harbour
        self._roster = roster
        self._dispatcher = dispatcher
        self._config = config
        self._restart = restart
        self._clock = clock
        self._events = events
        self._bell = bell
        self._zygote = ZygoteHandle(clock, zygote_environ, self._on_exit_code)
        self._codes: dict[int, int] = {}
        self._reasons: dict[str, str] = {}
        """Why workers that we killed had to go."""
        self._background = Background(events)
        self._switchboard = Switchboard(
            config.run_dir,
            dispatcher,
            clock,
            events,
            bell,
            self._background,
            self._on_free,
            harbour,
        )
        self._watched: dict[str, int] = {}
        self.closing = False
        self.on_remains: Callable[[], None] = lambda: None
        """Called when a worker has died and may have left a tree."""

    # Starting.

    async def start(self, count: int, mode: Mode) -> list[Slot]:
        """Start new workers, all at once; returns when each is idle or has failed."""
        slots = [self._roster.add(new_id(self._clock.now()), mode) for _ in range(count)]
        await asyncio.gather(*(self._start(slot) for slot in slots))
        return slots

    async def _start(self, slot: Slot) -> None:
        try:
            forked = await self._zygote.fork(self._config_for(slot.id))
            if forked.process is None:
                raise WorkerStartFailed(forked.error or "the worker ended at once")
            await self.attach(slot, forked.process, ready=self._harbour.prepare)
        except (AcodeError, OSError, TimeoutError) as error:
            self.unreachable(slot, str(error) or "it does not answer")
            return
        self._events.emit(WorkerStarted(slot.id, slot.process.pid if slot.process else 0))
        if slot.leaving:
            self._tell_to_stop(slot)

    def _on_free(self, slot: Slot) -> None:
        if slot.leaving:
            self._tell_to_stop(slot)

    def unreachable(self, slot: Slot, reason: str) -> None:
        """A worker that could not be called: if it lives it must not go on by itself."""
        if slot.id in self._watched:
            self._events.emit(PoolNote("error", f"worker-{slot.id}: {reason}; it is killed"))
            self._reasons[slot.id] = reason
            self.kill(slot)
        else:
            self._crashed(slot, reason)

    def _config_for(self, worker_id: str) -> WorkerConfig:
        return replace(self._config, id=worker_id)

    async def attach(
        self,
        slot: Slot,
        process: ProcessIdentity,
        heed: OnGreeting = lambda _hello: None,
        ready: Callable[[Slot], Awaitable[None]] | None = None,
    ) -> Heartbeat:
        """Watch a worker process, call it, and hear what it is doing.

        What it does is heeded at once: the result may come right behind the greeting.
        """
        slot.process = process
        self._watch(slot, process.pid)
        hello = await self._switchboard.call(slot, heed)
        if ready is not None:
            await ready(slot)
        slot.started_at = self._clock.now()
        slot.heard(self._clock.now())
        slot.move(WorkerStatus.IDLE)
        self._bell.ring()
        return hello

    def spool_of(self, worker_id: str) -> str:
        """Where a worker leaves an ending."""
        return f"{self._config.run_dir}/spool/{worker_id}"

    def _on_exit_code(self, exited: Exited) -> None:
        self._codes[exited.pid] = exited.code

    # Death.

    def _watch(self, slot: Slot, pid: int) -> None:
        descriptor = open_pidfd(pid)
        if descriptor is None:
            raise WorkerStartFailed("the worker ended at once")
        self._watched[slot.id] = descriptor
        loop = asyncio.get_running_loop()
        loop.add_reader(descriptor, self._on_death, slot, descriptor)

    def _on_death(self, slot: Slot, descriptor: int) -> None:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
        self._watched.pop(slot.id, None)
        self._background.spawn(self._bury(slot))

    async def _bury(self, slot: Slot) -> None:
        slot.hang_up()
        if self._switchboard.is_gone(slot):
            return
        await self._hear_exit_code(slot)
        await self._settle_lease(slot)
        if not self._left_in_order(slot):
            self.on_remains()
        if slot.status is WorkerStatus.STOPPING:
            slot.move(WorkerStatus.STOPPED)
            self._events.emit(WorkerStopped(slot.id))
            self._forget(slot)
        else:
            self._crashed(slot, self._cause(slot))

    async def _settle_lease(self, slot: Slot) -> None:
        """What becomes of the attempt of a dead worker: its tree goes first."""
        lease = slot.lease
        if lease is None:
            return
        left = spool.read(self.spool_of(slot.id))
        kill_marked(f"ACODE_ATTEMPT_TOKEN={lease.token}".encode())
        self.keep_checkpoint(lease)
        if left is not None and left.token == lease.token:
            await self._dispatcher.spooled(lease, left)
        elif self._left_in_order(slot):
            await self._dispatcher.released(lease, "its worker left before it began")
        else:
            await self._dispatcher.lost(lease, f"worker-{slot.id} died: {self._cause(slot)}")
        slot.lease = None

    async def _hear_exit_code(self, slot: Slot) -> None:
        """The zygote tells a moment later than the kernel, unless it is gone itself."""
        for _ in range(EXIT_CODE_POLLS):
            if slot.process is None or slot.process.pid in self._codes:
                return
            await asyncio.sleep(EXIT_CODE_POLL_SECONDS)

    def _left_in_order(self, slot: Slot) -> bool:
        """A worker that ends by itself has settled whatever it began."""
        code = self._codes.get(slot.process.pid if slot.process else 0)
        return code in (ExitCode.CLEAN, ExitCode.TASK_FAILED, ExitCode.TERMINATED)

    def _cause(self, slot: Slot) -> str:
        if (reason := self._reasons.pop(slot.id, None)) is not None:
            return reason
        code = self._codes.get(slot.process.pid if slot.process else 0)
        if code is None:
            return "it is gone"
        return f"exit code {code}" if code >= 0 else _killed(-code)

    def _crashed(self, slot: Slot, reason: str) -> None:
        slot.process, slot.heard_ms = None, 0
        if slot.status is not WorkerStatus.CRASHED:
            slot.move(WorkerStatus.CRASHED)
        if self.closing or slot.leaving:
            slot.move(WorkerStatus.STOPPED)
            self._events.emit(WorkerStopped(slot.id))
            self._forget(slot)
            return
        ran_for = self._clock.now() - slot.started_at if slot.started_at else 0
        slot.recent_restarts = consecutive(slot.recent_restarts, ran_for, self._restart)
        match after_crash(slot.recent_restarts, self._restart):
            case RestartAfter(delay_ms):
                self._events.emit(WorkerCrashed(slot.id, reason, delay_ms))
                self._background.spawn(self._restart_later(slot, delay_ms / 1000))
            case GiveUp(why):
                self._give_up(slot, f"{reason}; {why}")

    async def _restart_later(self, slot: Slot, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if self.closing or slot.leaving or slot.status is not WorkerStatus.CRASHED:
            return
        slot.restarts += 1
        slot.recent_restarts += 1
        slot.move(WorkerStatus.STARTING)
        await self._start(slot)

    def _give_up(self, slot: Slot, reason: str) -> None:
        slot.move(WorkerStatus.FAILED)
        self._events.emit(WorkerFailed(slot.id, reason))
        self._forget(slot)
        self._background.spawn(self._replace(slot.mode))

    async def _replace(self, mode: Mode) -> None:
        # A replacement that cannot start either must not turn this into a busy loop.
        await asyncio.sleep(self._restart.max_delay_ms / 1000)
        if not self.closing and len(self._roster.staying()) < self._roster.wanted:
            await self.start(1, mode)

    def _forget(self, slot: Slot) -> None:
        self._roster.remove(slot)
        self._background.spawn(self._harbour.let_go(slot.id))
        self.remove_remains(slot.id)

    def keep_checkpoint(self, lease: Lease) -> None:
        """What a worker that is gone has left for the next attempt of its task."""
        keep_checkpoint(self._config_for(lease.worker_id), lease.task.id)

    def remove_remains(self, worker_id: str) -> None:
        """Everything that a worker which is gone for good has left."""
        remove_remains(self._config_for(worker_id))

    # Stopping.

    def retire(self, slots: list[Slot]) -> None:
        """Let workers go: idle ones at once, busy ones after their task."""
        for slot in slots:
            slot.leaving = True
            if slot.lease is None:
                self._tell_to_stop(slot)

    def _tell_to_stop(self, slot: Slot, *, force: bool = False) -> None:
        if slot.status in (WorkerStatus.IDLE, WorkerStatus.BUSY, WorkerStatus.ERROR):
            slot.move(WorkerStatus.STOPPING)
        elif slot.status is WorkerStatus.CRASHED:
            self._crashed(slot, "it is not needed any more")
            return
        if slot.link is not None:
            order = Control(action=Action.SHUTDOWN, force=force)
            slot.link.send(FrameType.CONTROL, new_id(self._clock.now()), order)

    def interrupt(self, slots: list[Slot], *, force: bool) -> None:
        """End what these workers run; the tasks go back to the queue."""
        for slot in slots:
            if slot.lease is not None and slot.link is not None:
                order = Control(
                    action=Action.ABORT, token=slot.lease.token, why=Why.RELEASE, force=force
                )
                slot.link.send(FrameType.CONTROL, slot.lease.token, order)

    def kill(self, slot: Slot) -> None:
        """The last resort for a worker that does not listen. Its death is noticed as any other."""
        descriptor = self._watched.get(slot.id)
        if descriptor is not None and slot.process is not None and is_alive(slot.process):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)

    async def close(self) -> None:
        """End the zygote and everything that is still under way here."""
        self.closing = True
        await self._zygote.close()
        await self._background.close()
        loop = asyncio.get_running_loop()
        for descriptor in self._watched.values():
            loop.remove_reader(descriptor)
            os.close(descriptor)
        self._watched.clear()


def _killed(number: int) -> str:
    """As a shell counts, which has no other way to tell of signals."""
    return f"{signal.Signals(number).name}, exit code {128 + number}"
