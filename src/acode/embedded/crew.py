"""The workers of an embedded pool: takes leases from the dispatcher, gives them to whoever is free.

What has arrived waits here in the order of its priority, so a lane more than there are workers
never lets a less urgent task go first.
"""

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from acode.clock import Clock, ticks
from acode.embedded.eager import Errands
from acode.embedded.lanes import Lanes
from acode.embedded.order import Interruption, Order
from acode.embedded.worker import Worker
from acode.engine.bell import Bell
from acode.engine.dispatcher import Dispatcher
from acode.engine.roster import Roster, Slot
from acode.model.ending import Ending
from acode.model.event import PoolNote, WorkerStarted, WorkerStopped
from acode.model.failure import Failure
from acode.model.state import WorkerStatus
from acode.observe.events import Events
from acode.runner.context import Call
from acode.store.base import Store
from acode.worker.messages import Action, Control, Ended, Why
from acode.worker.wire import FrameType

STUCK_SECONDS = 0.05
"""What waits behind an attempt that takes longer is given to others."""

OnRun = Callable[[Order, float], None]
"""Told of every attempt that has run, and how many seconds it took."""

_WHY = {
    Why.CANCEL: Interruption.CANCEL,
    Why.RELEASE: Interruption.RELEASE,
    Why.SILENCE: Interruption.RELEASE,
}


class Lane:
    """The dispatcher's way to the crew for one lease at a time."""

    def __init__(self, crew: "Crew", slot: Slot) -> None:
        self._crew = crew
        self._slot = slot

    def send(self, kind: FrameType, id_: str, payload: object) -> None:
        """Take an attempt, or an order about one."""
        if kind is FrameType.TASK and isinstance(payload, Call):
            self._crew.take(self._slot, payload)
        elif isinstance(payload, Control) and payload.action is Action.ABORT:
            self._crew.abort(id_, _WHY[payload.why], force=payload.force)

    def close(self) -> None:
        """There is nothing to hang up."""


class Crew:
    """Owns the workers, and is the desk that they report to."""

    def __init__(
        self,
        store: Store,
        roster: Roster,
        dispatcher: Dispatcher,
        clock: Clock,
        events: Events,
        bell: Bell,
        on_run: OnRun,
        on_take: Callable[[], None],
    ) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._clock = clock
        self._events = events
        self._bell = bell
        self._on_run = on_run
        self._on_take = on_take
        self._hand: list[tuple[int, int, Order]] = []
        self._orders: dict[str, Order] = {}
        """Every attempt that is not over, by its token."""
        self._taken = 0
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0
        self._relief: asyncio.TimerHandle | None = None
        self.workers: dict[str, Worker] = {}
        self.lanes = Lanes(roster, clock, partial(Lane, self), self.workers)
        self.causes: dict[tuple[str, int], BaseException] = {}
        """What handlers have raised, by task and attempt, until it is told."""
        self.unwanted: set[str] = set()
        """Tasks that are being cancelled: none of them begins any more."""
        self.closing = False
        """The pool stops: what was claimed meanwhile is given back."""
        self.errands = Errands(self._complain)

    def _complain(self, error: BaseException) -> None:
        self._events.emit(PoolNote("error", f"{type(error).__name__}: {error}"))

    # Workers.

    def join(self, worker: Worker, pid: int) -> None:
        """A worker is ready; so is its lane."""
        self.workers[worker.id] = worker
        self.lanes.open_for(worker.id)
        self._events.emit(WorkerStarted(worker.id, pid))
        self._deal()
        self._bell.ring()

    def absent(self, worker: Worker, *, for_good: bool = False) -> None:
        """A worker has died; until it is back nothing is claimed on its account."""
        self.workers.pop(worker.id, None)
        self.lanes.close_for(worker.id, for_good=for_good)

    def part(self, worker: Worker) -> None:
        """A worker is gone for good."""
        self.absent(worker, for_good=True)
        self._events.emit(WorkerStopped(worker.id))

    # Attempts.

    def take(self, slot: Slot, call: Call) -> None:
        """An attempt arrives."""
        if slot.lease is None:
            raise RuntimeError("an attempt without a lease")
        self._on_take()
        self._taken += 1
        order = self._orders[call.token] = Order(slot, slot.lease, call, self._taken)
        self._put(order)
        if call.task_id in self.unwanted:
            self.abort(call.token, Interruption.CANCEL)
        elif self.closing:
            self.abort(call.token, Interruption.RELEASE)
        self._deal()

    def errand(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something that nobody waits for."""
        self.errands.run(work)

    def put_back(self, orders: list[Order]) -> None:
        """Attempts that a worker had and did not begin; they have the places they had."""
        for order in orders:
            self._put(order)
        self._deal()

    def _put(self, order: Order) -> None:
        heapq.heappush(self._hand, (order.lease.task.spec.priority.level, order.turn, order))

    def _deal(self) -> None:
        hand = self._hand
        while hand:
            order = hand[0][2]
            if order.over:
                heapq.heappop(hand)
                continue
            worker = self._worker_for(order)
            if worker is None:
                return
            heapq.heappop(hand)
            worker.begin(order)

    def _worker_for(self, order: Order) -> Worker | None:
        home = self.workers.get(order.slot.id)
        if home is not None and home.load == 0 and home.room(1):
            return home
        free = [worker for worker in self.workers.values() if worker.room(self.lanes.depth) > 0]
        return min(free, key=lambda worker: worker.load, default=None)

    def abort(self, token: str, why: Interruption, *, force: bool = False) -> None:
        """End an attempt, wherever it is."""
        order = self._orders.get(token)
        if order is None or (order.why is not None and not force):
            return
        order.why = order.why or why
        if any(order is waiting for _, _, waiting in self._hand):
            order.over = True
            self.ended(order, order.interrupted(), seconds=0.0)
        else:
            for worker in tuple(self.workers.values()):
                worker.interrupt(order, force=force)

    # The desk.

    def started(self, order: Order) -> None:
        """A handler begins; its time runs."""
        order.begin(ticks())
        if self.lanes.depth > 1 and self._relief is None:
            self._relief = asyncio.get_running_loop().call_later(STUCK_SECONDS, self._relieve)
        if not self._alarm_at or order.deadline < self._alarm_at:
            self._set_alarm(order.deadline)

    def ended(
        self,
        order: Order,
        ending: Ending,
        *,
        seconds: float,
        value: Any = None,
        failure: Failure | None = None,
        cause: BaseException | None = None,
    ) -> None:
        """An attempt is over: its ending is written, and the worker gets the next one."""
        lease = order.lease
        self._orders.pop(lease.token, None)
        if order.began:
            self._on_run(order, seconds)
        if cause is not None:
            self.causes[lease.task.id, lease.number] = cause
        ended = Ended(
            task_id=lease.task.id,
            token=lease.token,
            number=lease.number,
            ending=ending,
            ended_at=self._clock.now(),
            failure=failure,
            value=value,
        )
        self.errands.run(self._finish(order.slot, ended))
        if self._hand:
            self._deal()

    async def _finish(self, slot: Slot, ended: Ended) -> None:
        await self._dispatcher.ended(slot, ended)
        self._set_free(slot)

    def lost(self, order: Order, why: str) -> None:
        """The worker of an attempt has died with it."""
        order.over = True
        if order.why is not None:
            self.ended(order, order.interrupted(), seconds=ticks() - order.began)
            return
        self._orders.pop(order.lease.token, None)
        self._on_run(order, ticks() - order.began)
        self.errands.run(self._bury(order, why))

    async def _bury(self, order: Order, why: str) -> None:
        await self._dispatcher.lost(order.lease, why)
        order.slot.lease = None
        if order.slot.status in (WorkerStatus.BUSY, WorkerStatus.ERROR):
            order.slot.move(WorkerStatus.IDLE)
        self._set_free(order.slot)

    def _set_free(self, slot: Slot) -> None:
        if slot.lease is None:
            self.lanes.idle(slot)
        elif not self.lanes.widen():
            return  # it has its next one already, and so has everybody else
        self._bell.ring()

    async def save_step(self, call: Call, step: str, value: Any) -> None:
        """Keep the value of a step."""
        if order := self._orders.get(call.token):
            order.heard = ticks()
        await self._store.save_step(call.task_id, call.token, step, value)

    def warn(self, call: Call, message: str) -> None:
        """Something went wrong that does not matter."""
        self._events.emit(PoolNote("warning", f"task {call.task_id} ({call.name}): {message}"))

    # Time.

    def _set_alarm(self, moment: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = moment
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_later(max(0.0, moment - ticks()), self._look_at_deadlines)

    def _look_at_deadlines(self) -> None:
        now, self._alarm, self._alarm_at = ticks(), None, 0.0
        for order in self.running():
            if order.deadline <= now and order.why is None:
                self.abort(order.lease.token, Interruption.TIMEOUT)
        left = [order.deadline for order in self.running() if order.why is None]
        if left:
            self._set_alarm(min(left))

    def _relieve(self) -> None:
        self._relief = None
        if self.relieve():
            self._relief = asyncio.get_running_loop().call_later(STUCK_SECONDS, self._relieve)

    def relieve(self) -> bool:
        """Call back what waits behind attempts that take long; whether anything waits so."""
        behind = False
        late = ticks() - STUCK_SECONDS
        for worker in self.workers.values():
            order = worker.current
            if order is None or worker.load < 2:
                continue
            behind = True
            if order.began < late:
                worker.relieve()
        return behind

    # What runs.

    def running(self) -> list[Order]:
        """The attempts whose handlers have begun."""
        return [order for order in self._orders.values() if order.began]

    def waiting(self) -> list[Order]:
        """Those that have arrived and not begun."""
        return [order for order in self._orders.values() if not order.began]

    def is_idle(self) -> bool:
        """Whether nothing is left here."""
        return not self._orders

    def close(self) -> None:
        """Look at no deadlines any more."""
        for timer in (self._alarm, self._relief):
            if timer is not None:
                timer.cancel()
        self._alarm = self._relief = None
