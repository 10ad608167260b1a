"""The monitor: one look a second at what the pool uses, for everybody who wants to know."""

from collections import deque
from typing import Any, NamedTuple

from msgspec.structs import replace

from acode.clock import ticks
from acode.engine.bell import Bell
from acode.engine.dispatcher import Dispatcher
from acode.engine.orders import Orders
from acode.engine.roster import LIVE, Peak, Roster, Slot
from acode.engine.scales import Scales
from acode.model.event import BackpressureChanged, LimitExceeded
from acode.model.limits import CPU, DISK, MEMORY, PROCESSES, Over, OverLimitAction
from acode.model.task import Lease
from acode.observe.events import Events
from acode.policy.backpressure import Gauge, Load, PoolCeilings, held_by, hold_of
from acode.policy.limits import Sampled, action_on, overs, walled
from acode.runner.machine import look
from acode.runner.usage import Sampler, TreeUse
from acode.worker.messages import Action, Control, Ended, Exceeded
from acode.worker.wire import FrameType

REST_SECONDS = 1.0
IDLE_SECONDS = 3.0
"""The same while nothing runs and nothing is held back."""
WINDOW_SECONDS = 5.0
"""An attempt is over its share of the processor if it is for so long."""

NOTHING = {"cpuPercent": 0.0, "memoryBytes": 0, "diskBytes": 0}


class Reading(NamedTuple):
    """The processor time of a tree up to a moment."""

    at: float
    cpu_seconds: float


class Watched:
    """What is known of one worker and its present attempt."""

    def __init__(self) -> None:
        self.token: str | None = None
        self.use = TreeUse(0.0, 0, 0, ())
        self.peak_bytes = 0
        """The most memory that its attempt was seen to use."""
        self.told: set[str] = set()
        """Limits that its attempt has gone over and that were acted on."""
        self.scales = Scales()
        self._readings: deque[Reading] = deque()
        self._began_at = 0.0

    def see(self, token: str | None, use: TreeUse, now: float) -> None:
        """Take in a new sample."""
        if token != self.token:
            self.token, self._began_at = token, now
            self.told.clear()
            self.scales = Scales()
            self.peak_bytes = 0
        self.use = use
        self.peak_bytes = max(self.peak_bytes, use.memory_bytes)
        self._readings.append(Reading(now, use.cpu_seconds))
        while len(self._readings) > 2 and self._readings[1].at <= now - WINDOW_SECONDS:
            self._readings.popleft()

    def cpu_percent(self) -> float:
        """Of one core, over the window."""
        return _percent(self._readings[0], self._readings[-1])

    def lasting_cpu_percent(self) -> float | None:
        """The same of the present attempt; None until it has been there for a whole window."""
        lasted = self._readings[-1].at - self._began_at
        return self.cpu_percent() if lasted >= WINDOW_SECONDS else None

    def latest_cpu_percent(self) -> float:
        """Between the last two samples."""
        return _percent(self._readings[-2], self._readings[-1]) if len(self._readings) > 1 else 0.0


def _percent(first: Reading, last: Reading) -> float:
    span = last.at - first.at
    return max(0.0, last.cpu_seconds - first.cpu_seconds) / span * 100 if span > 0 else 0.0


class Monitor:
    """Knows what every worker uses, holds attempts to their limits and the pool to its own."""

    def __init__(
        self,
        roster: Roster,
        dispatcher: Dispatcher,
        orders: Orders,
        ceilings: PoolCeilings,
        directory: str,
        events: Events,
        bell: Bell,
    ) -> None:
        self._roster = roster
        self._dispatcher = dispatcher
        self._orders = orders
        self._ceilings = ceilings
        self._directory = directory
        self._events = events
        self._bell = bell
        self._sampler = Sampler()
        self._watched: dict[str, Watched] = {}
        self._held: frozenset[Gauge] = frozenset()

    async def tick(self) -> float:
        """One look at everything."""
        self._sample()
        for slot in self._roster:
            if slot.lease is not None and slot.id in self._watched:
                await self._judge(slot, slot.lease, self._watched[slot.id])
        self._press()
        return REST_SECONDS if self._held or self._roster.busy() else IDLE_SECONDS

    def _sample(self) -> None:
        live = [slot for slot in self._roster if slot.process and slot.status in LIVE]
        uses = self._sampler.sample({s.id: s.process.pid for s in live if s.process})
        now = ticks()
        self._watched = {name: self._watched.get(name, Watched()) for name in uses}
        for slot in live:
            if (use := uses.get(slot.id)) is not None:
                token = slot.lease.token if slot.lease else None
                watched = self._watched[slot.id]
                watched.see(token, use, now)
                slot.peak = Peak(token, watched.peak_bytes)

    # What others read.

    def resources(self, slot: Slot) -> dict[str, Any]:
        """What a worker and its attempt use."""
        watched = self._watched.get(slot.id)
        if watched is None:
            return NOTHING
        cpu, memory = _inside(slot)
        return {
            "cpuPercent": round(watched.cpu_percent() + cpu, 1),
            "memoryBytes": watched.use.own_bytes + watched.use.memory_bytes + memory,
            "diskBytes": slot.disk_bytes + _layer(slot),
        }

    # The limits of an attempt.

    async def _judge(self, slot: Slot, lease: Lease, watched: Watched) -> None:
        limits = self._orders.limits(lease.task.spec)
        if CPU in watched.told and limits.action is OverLimitAction.THROTTLE:
            # The worker steers by what the attempt uses now.
            used = round(watched.latest_cpu_percent(), 1)
            _tell(slot, lease, Over(CPU, limits.cpu_percent, used), limits.action)
        sampled = _sampled(watched)
        if self._orders.is_for_container(lease.task.spec) and (layer := _layer(slot)):
            # What lies in mounted directories its worker sees; only an engine sees into a layer.
            sampled = sampled._replace(disk_bytes=slot.disk_bytes + layer)
        for over in overs(sampled, limits, {*slot.enforced, *watched.told}):
            held = walled(limits) if over.what == DISK else limits
            action = action_on(over, held.action)
            if over.what == MEMORY and not await self._weighs(slot, lease, watched):
                continue
            watched.told.add(over.what)
            _tell(slot, lease, over, action)
            self._events.emit(LimitExceeded.of(lease.task.id, slot.id, over, action))
            if over.what == PROCESSES and action is OverLimitAction.KILL:
                return  # a flood is dammed before anybody looks into it

    async def _weighs(self, slot: Slot, lease: Lease, watched: Watched) -> bool:
        """Whether an attempt is over its memory: what it shares was counted for each sharer."""
        most = self._orders.limits(lease.task.spec).memory_bytes
        exact = await watched.scales.weigh(watched.use.pids, most)
        return exact is not None and exact > most and slot.lease is lease

    # The limits of the pool, and the machine.

    def _press(self) -> None:
        inside = [_inside(slot) for slot in self._roster]
        load = Load(
            sum(seen.use.own_bytes + seen.use.memory_bytes for seen in self._watched.values())
            + sum(memory for _, memory in inside),
            sum(seen.cpu_percent() for seen in self._watched.values())
            + sum(cpu for cpu, _ in inside),
            *look(self._directory),
        )
        held = held_by(load, self._ceilings, self._held)
        gauges = frozenset(each.gauge for each in held)
        self._dispatcher.hold = hold = hold_of(held)
        if gauges != self._held:
            self._held = gauges
            self._events.emit(BackpressureChanged(hold.reason if hold else None))
            self._bell.ring()


def _inside(slot: Slot) -> tuple[float, int]:
    """Processor and memory of a worker's container, which is no part of its tree."""
    used = slot.container_used
    return (used.cpu_percent, used.memory_bytes) if used else (0.0, 0)


def _layer(slot: Slot) -> int:
    """What its attempt has written to the container's own layer."""
    return slot.container_used.layer_bytes if slot.container_used else 0


def _sampled(watched: Watched) -> Sampled:
    use = watched.use
    return Sampled(watched.lasting_cpu_percent(), use.memory_bytes, len(use.pids))


def _tell(slot: Slot, lease: Lease, over: Over, action: OverLimitAction) -> None:
    if slot.link is not None:
        data = Exceeded(lease.task.id, over, action)
        order = Control(action=Action.LIMIT, token=lease.token, data=data)
        slot.link.send(FrameType.CONTROL, lease.token, order)


def with_peak(slot: Slot, ended: Ended) -> Ended:
    """A worker without a control group knows its largest process only; the monitor saw them all."""
    seen = slot.peak.memory_bytes if slot.peak.token == ended.token else 0
    if slot.counts or seen <= ended.usage.max_memory_bytes:
        return ended
    return replace(ended, usage=replace(ended.usage, max_memory_bytes=seen))
