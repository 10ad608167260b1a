"""The pool: its size, its health, its end. What the doors ask the daemon for."""

import asyncio
from collections.abc import Callable

from msgspec import convert

from acode.clock import Clock, Deadline, ticks
from acode.engine.dispatcher import Dispatcher
from acode.engine.roster import Roster, Slot
from acode.engine.supervisor import Supervisor
from acode.model.event import PoolNote, PoolScaled
from acode.model.state import WorkerStatus
from acode.model.task import Mode
from acode.observe.events import Events
from acode.policy.health import Watch, is_hung, look
from acode.policy.scaling import Autoscale, Stoppable, choose_to_stop, clamp, decide
from acode.settings import Settings
from acode.worker.wire import FrameType

SETTLE_SECONDS = 30.0
"""More than a worker may take to start, or to be killed because it does not."""
KILL_MARGIN_SECONDS = 5.0
"""What a worker may take beyond its kill timeout before it is ended itself."""


class Pool:
    """All workers of one daemon."""

    def __init__(
        self,
        roster: Roster,
        supervisor: Supervisor,
        dispatcher: Dispatcher,
        settings: Settings,
        clock: Clock,
        events: Events,
    ) -> None:
        self.roster = roster
        self._supervisor = supervisor
        self._dispatcher = dispatcher
        self._workers = settings.workers
        self._autoscale = convert(settings.autoscale, Autoscale, from_attributes=True)
        self._clock = clock
        self._events = events
        self._scaled_at: int | None = None
        self._watch: Watch | None = None
        self._decided = ""
        self._scaling = asyncio.Lock()

    async def fill(self, count: int, mode: Mode) -> None:
        """Bring the pool to its first size; adopted workers count."""
        # The first size is a choice like any other: the autoscaler lets it stand for a while.
        self._scaled_at = self._clock.now()
        await self._reach(count, mode)

    async def scale(self, count: int) -> tuple[int, str | None]:
        """Another size: more are started, or idle ones go first. The size, and why if clamped."""
        target, clamped = clamp(count, self._workers.min, self._workers.max)
        await self._resize(target, clamped or "asked for")
        return target, clamped

    async def _resize(self, target: int, reason: str) -> None:
        async with self._scaling:
            size = len(self.roster.staying())
            if target != size:
                self._scaled_at = self._clock.now()
                self._events.emit(PoolScaled(size, target, reason))
            await self._reach(target, self._workers.mode)

    async def _reach(self, size: int, mode: Mode) -> None:
        self.roster.wanted = size
        staying = self.roster.staying()
        if size > len(staying):
            await self._supervisor.start(size - len(staying), mode)
        else:
            self._retire(staying, len(staying) - size)

    def _retire(self, staying: list[Slot], count: int) -> None:
        stoppable = [Stoppable(s.id, s.status, s.started_at or 0, s.load) for s in staying]
        chosen = set(choose_to_stop(stoppable, count))
        self._supervisor.retire([slot for slot in staying if slot.id in chosen])

    async def autoscale(self) -> float:
        """One decision of the autoscaler; how long to rest."""
        staying = self.roster.staying()
        active = sum(1 for slot in staying if slot.lease is not None)
        now = self._clock.now()
        decision = decide(len(staying), active, self._scaled_at, now, self._autoscale)
        # Every decision is in the log; one like the last is worth a line only to whoever looks.
        level = "debug" if decision.reason == self._decided else "info"
        self._decided = decision.reason
        self._events.emit(PoolNote(level, f"autoscale: {decision.reason}"))
        if decision.target != len(staying):
            await self._resize(decision.target, decision.reason)
        return self._autoscale.interval_ms / 1000

    async def watch_health(self) -> float:
        """One look at the heartbeats: who hangs is killed, and replaced like any dead worker."""
        rest_ms = min(self._workers.health_check_interval_ms, self._workers.heartbeat_interval_ms)
        interval = self._workers.heartbeat_interval_ms
        now = round(ticks() * 1000)
        self._watch = look(self._watch, now, interval)
        for slot in self.roster:
            if slot.process is None or not slot.heard_ms:
                continue
            if is_hung(slot.heard_ms, self._watch, interval):
                self._events.emit(PoolNote("error", f"worker-{slot.id} hangs; it is replaced"))
                self._supervisor.kill(slot)
            elif slot.link is not None and now - slot.heard_ms >= interval:
                slot.link.send(FrameType.HEARTBEAT, slot.id, None)
        return rest_ms / 1000

    async def drain(self, *, hurry: Callable[[], bool]) -> None:
        """Stop: claim nothing more, let running tasks finish, release what does not in time."""
        self._dispatcher.accepting = False
        self._supervisor.closing = True
        self._supervisor.retire(list(self.roster))
        if not hurry():
            await _until(self._is_empty, self._workers.drain_timeout_seconds, hurry)
        await self._release_rest(force=hurry())

    async def _release_rest(self, *, force: bool) -> None:
        if self._is_empty():
            return
        self._supervisor.interrupt(list(self.roster), force=force)
        patience = 0.0 if force else self._workers.process.kill_timeout_seconds
        await _until(self._is_empty, patience + KILL_MARGIN_SECONDS)
        for slot in self.roster:
            self._supervisor.kill(slot)
        await _until(self._is_empty, KILL_MARGIN_SECONDS)

    def _is_empty(self) -> bool:
        return len(self.roster) == 0

    async def settle(self) -> None:
        """Wait until every worker is up or has failed."""
        await _until(self._is_settled, SETTLE_SECONDS)

    def _is_settled(self) -> bool:
        return all(slot.status is not WorkerStatus.STARTING for slot in self.roster)


async def _until(
    condition: Callable[[], bool], seconds: float, interrupted: Callable[[], bool] = lambda: False
) -> None:
    deadline = Deadline(seconds)
    # Workers end one by one and rarely; a short poll is simpler than an event for each.
    while not condition() and not interrupted() and deadline.left() > 0:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
