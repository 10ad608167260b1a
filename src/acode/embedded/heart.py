"""The parts of an embedded pool put together: the daemon's engine with a crew for its workers."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from acode.clock import Clock, Deadline, ticks
from acode.embedded.crew import Crew
from acode.embedded.handle import Fate, Waiters, fate_of
from acode.embedded.hooks import Hooks
from acode.embedded.notes import Notes
from acode.embedded.order import Interruption, Order
from acode.embedded.process import ProcessWorker
from acode.embedded.request import Calls
from acode.embedded.staff import InlineStaff, ProcessStaff, Staff
from acode.embedded.statistics import PoolStats, Statistics, mean_ms
from acode.embedded.storage import is_in_memory, load_store, open_store
from acode.embedded.stream import Stream
from acode.embedded.wanted import Wanted
from acode.embedded.watchdog import Watchdog
from acode.engine.bell import Bell
from acode.engine.dispatcher import Dispatcher
from acode.engine.roster import Roster
from acode.engine.service import Service
from acode.errors import DrainTimeout, IllegalMove, TaskNotFound
from acode.model.event import (
    PoolEvent,
    PoolNote,
    PoolScaled,
    TaskEnded,
    WorkerStalled,
)
from acode.model.priority import MINUTE_MS
from acode.model.state import FINISHED, Status
from acode.observe.events import Events
from acode.policy.health import Watch, is_hung, look
from acode.store.base import Added, Store

if TYPE_CHECKING:
    from acode.embedded.company import Company

DAY_MS = 86_400_000
TIDY_SECONDS = 600.0
SETTLE_SECONDS = 10.0
"""What writing the last endings may take."""


class Heart:
    """Everything that lives while the pool does."""

    store: Store

    def __init__(self, wanted: Wanted, clock: Clock) -> None:
        self._wanted = wanted
        self._clock = clock
        self._settings = wanted.settings
        self._events = Events()
        self._statistics = Statistics()
        self._runs = 0
        self._watch: Watch | None = None
        self.bell = Bell()
        self.waiters = Waiters()
        self.stream = Stream(clock, self._events)
        self._notes = Notes(self._events)
        self._staff = self._make_staff()
        self._services: list[Service] = []
        self._watchdog: Watchdog | None = None
        self._company: Company | None = None

    def _make_staff(self) -> Staff:
        if self._wanted.isolation == "inline":
            return InlineStaff(self._clock)
        heartbeat_ms = round(self._wanted.stall_timeout * 1000 / 4)
        return ProcessStaff(self._clock, self._events, heartbeat_ms)

    # Beginning.

    async def start(self) -> None:
        """The template first, then the store, then what an earlier run left, then work."""
        load_store(self._wanted.store)
        if is_in_memory(self._wanted.store):
            self._build()  # holds nothing that a template must not have, and is shared with it
            await self._staff.open()
        else:
            await self._staff.open()
            try:
                self._build()
            except BaseException:
                await self._staff.close()
                raise
        if self._company is None:
            await self._recover()
        else:
            await self._company.join(self.dispatcher)
        counts = await self.store.counts()
        self._statistics.waits(counts.waiting)
        self._events.subscribe(self._on_end, TaskEnded)
        self._notes.look()
        try:
            self._staff.begun = self._opened.begun
            await self._staff.hire(self.crew, self._wanted.workers)
        except BaseException:
            await self._let_go()
            raise
        self.dispatcher.accepting = True
        for service in self._services:
            service.start()
        self._watchdog = Watchdog(self._wanted.stall_timeout, self._on_blocked)

    def _on_blocked(self, seconds: float) -> None:
        note = f"a handler, or the program itself, blocked the event loop for {seconds:g} s"
        self._events.emit(PoolNote("error", f"{note} or longer"))

    def _build(self) -> None:
        ageing_ms = round(self._wanted.ageing_minutes * MINUTE_MS)
        self._opened = open_store(self._wanted.store, self._clock, ageing_ms)
        self.store = self._opened.store
        self._roster = Roster(self._events)
        self._company = self._make_company() if self._opened.shared else None
        self.dispatcher = Dispatcher(
            self.store,
            self._roster,
            Calls(self._wanted.task_timeout),
            self._settings,
            self._clock,
            self._events,
            tenure=self._company.tenure if self._company else None,
            store_clock=self._opened.clock,
        )
        self.crew = Crew(
            self.store,
            self._roster,
            self.dispatcher,
            self._clock,
            self._events,
            self.bell,
            self._on_run,
            self._statistics.starts,
        )
        self._hooks = Hooks(self.store, self._wanted.on_failure, self._events, self.crew.errands)
        self._services = [
            Service("dispatcher", self.tick, self._events, self.bell),
            Service("health", self._watch_health, self._events),
            Service("janitor", self._tidy, self._events),
        ]

    def _make_company(self) -> "Company":
        # Most pools have their store to themselves, and need nothing that a host needs.
        from acode.embedded.company import Company

        parts = (self._roster, self._events, self.bell, self.waiters)
        return Company(self.store, self._clock, *parts)

    async def _recover(self) -> None:
        """Whatever is leased was with a program that has died: the lock says so."""
        begun = self._opened.begun
        known = begun.tokens() if begun is not None else None
        for lease in await self.store.leases():
            if known is None or lease.token in known:
                await self.dispatcher.lost(lease, "the program that ran it has died")
            else:
                await self.dispatcher.released(lease, "the program died before it began")
        if begun is not None:
            begun.forget()

    async def tick(self) -> float:
        """One look at the queue; how long to rest."""
        rest = await self.dispatcher.tick()
        self.crew.lanes.narrow()
        return rest

    # End.

    async def stop(self, timeout: float) -> None:  # noqa: ASYNC109 -- the contract's word
        """Claim nothing more, drain, release, leave."""
        self.dispatcher.accepting = False
        self.crew.closing = True
        late: list[str] = []
        try:
            self._release_unbegun()
            late = await self._drain(timeout)
        finally:
            await self._let_go()
        if late:
            names = ", ".join(late)
            raise DrainTimeout(
                f"{len(late)} tasks did not end in {timeout:g} s: {names}", tuple(late)
            )

    def _release_unbegun(self) -> None:
        for order in self.crew.waiting():
            self.crew.abort(order.lease.token, Interruption.RELEASE)

    async def _drain(self, seconds: float) -> list[str]:
        deadline = Deadline(seconds)
        # Few tasks run at once; a short poll is simpler than an event for each.
        while not self.crew.is_idle() and deadline.left() > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(0.01, max(0.0, deadline.left())))
        late = [order for order in self.crew.running() if order.why is None]
        for order in late:
            self.crew.abort(order.lease.token, Interruption.RELEASE)
        while not self.crew.is_idle():  # noqa: ASYNC110 -- workers see to it that this ends
            await asyncio.sleep(0.01)
        return [order.lease.task.id for order in late]

    async def _let_go(self) -> None:
        if self._watchdog is not None:
            self._watchdog.stop()
        for service in self._services:
            await service.stop()
        await self.dispatcher.outbox.close()
        await self.crew.errands.settle(SETTLE_SECONDS)
        self.crew.close()
        for worker in tuple(self.crew.workers.values()):
            await worker.close()
        await self._staff.close()
        await self.crew.errands.cancel()
        if self._company is not None:
            await self._company.leave()
        await self.store.close()
        self._opened.close()
        self.waiters.tell_all(Fate(None))
        self.stream.end()

    # Hearing.

    def _on_end(self, event: PoolEvent) -> None:
        if not isinstance(event, TaskEnded):
            return
        status = event.status
        if status is Status.PENDING and event.task_id in self.crew.unwanted:
            status = Status.CANCELLED  # the store lets the wish win over another try
        self.crew.unwanted.discard(event.task_id)
        cause = self.crew.causes.pop((event.task_id, event.number), None)
        if status is Status.PENDING:
            self._statistics.waits(1)
            return
        self._statistics.ended(event.kind, status)
        value = event.result.value if event.result else None
        self.waiters.tell(event.task_id, Fate(status, value, event.failure, cause))
        if status is Status.FAILED:
            self._hooks.failed(event, cause)

    def _on_run(self, order: Order, seconds: float) -> None:
        self._statistics.ran(order.call.name, seconds)
        self._runs += 1
        # Inline workers gain by more lanes only where commits take time.
        if not self._runs % 16 and (self._wanted.isolation != "inline" or self._opened.durable):
            self.crew.lanes.suit(mean_ms(self._statistics.recent))

    # Wishes.

    def added(self, added: Sequence[Added]) -> None:
        """Tasks are stored, and may be claimed at once."""
        task_ids = [one.id for one in added if not one.existed]
        self._statistics.submitted += len(task_ids)
        self._statistics.waits(len(task_ids))
        if self.stream.is_read:
            for task_id in task_ids:
                self.stream.put("task.added", {"taskId": task_id, "status": Status.PENDING.value})
        self.expect()

    def expect(self) -> None:
        """Tasks are coming: whoever is free looks, and may claim in the commit that stores them."""
        self._notes.look()
        if any(slot.is_free for slot in self._roster):
            self.bell.ring()

    def withdraw(self, task_ids: list[str]) -> None:
        """Whoever submitted these has given up."""
        self.crew.unwanted.update(task_ids)
        self.crew.errands.later(self._withdraw(task_ids))

    async def _withdraw(self, task_ids: list[str]) -> None:
        for task_id in task_ids:
            # Twice: the first may share a commit with the submission, and come before it there.
            if not await self._cancel_known(task_id):
                await self._cancel_known(task_id)

    async def _cancel_known(self, task_id: str) -> bool:
        try:
            await self.cancel(task_id)
        except TaskNotFound:
            return False
        except IllegalMove:
            pass  # it was quicker
        return True

    async def cancel(self, task_id: str) -> None:
        """Cancel a waiting task, or ask a running one to end."""
        self.crew.unwanted.add(task_id)
        try:
            task = await self.store.cancel(task_id, actor="program")
        except BaseException:
            self.crew.unwanted.discard(task_id)
            raise
        if task.status is Status.CANCELLED:
            self.crew.unwanted.discard(task_id)
            self._statistics.waits(-1)
            self.waiters.tell(task_id, Fate(Status.CANCELLED))
            if self.stream.is_read:
                self.stream.put("task.cancelled", {"taskId": task_id, "status": "cancelled"})
        self.bell.ring()

    async def requeue(self, task_id: str, reset_attempts: bool) -> "asyncio.Future[Fate]":
        """Queue a dead letter again."""
        future = self.waiters.expect(task_id)
        try:
            await self.store.retry(task_id, actor="program", reset_attempts=reset_attempts)
        except BaseException:
            self.waiters.forget(task_id)
            raise
        self._statistics.waits(1)
        self.bell.ring()
        return future

    async def fate(self, task_id: str) -> Fate:
        """What becomes of any task of the store."""
        future = self.waiters.expect(task_id)
        task = await self.store.get(task_id)
        if task.status in FINISHED:
            self.waiters.tell(task_id, fate_of(task))
        return await asyncio.shield(future)

    async def scale(self, count: int) -> None:
        """Another number of workers."""
        staying = [worker for worker in self.crew.workers.values() if not worker.leaving]
        self._events.emit(PoolScaled(len(staying), count, "asked for"))
        if count > len(staying):
            await self._staff.hire(self.crew, count - len(staying))
        for worker in sorted(staying, key=lambda one: one.load)[: len(staying) - count]:
            worker.leaving = True
            self.crew.errands.later(self._retire(worker.id))

    async def _retire(self, worker_id: str) -> None:
        worker = self.crew.workers[worker_id]
        while worker.load:  # noqa: ASYNC110 -- rare, and nothing waits for it
            await asyncio.sleep(0.02)
        self._staff.release(self.crew, worker_id)

    def stats(self) -> PoolStats:
        """What the pool does and has done."""
        workers = [worker for worker in self.crew.workers.values() if not worker.leaving]
        active = sum(worker.load > 0 for worker in self.crew.workers.values())
        in_hand = len(self.crew.waiting())
        return self._statistics.seen(workers=len(workers), active=active, in_hand=in_hand)

    # Care.

    async def _watch_health(self) -> float:
        """One look at who is silent."""
        interval_ms = round(self._wanted.stall_timeout * 1000 / 4)
        now = ticks()
        self._watch = look(self._watch, round(now * 1000), interval_ms)
        for worker in tuple(self.crew.workers.values()):
            if isinstance(worker, ProcessWorker):
                self._look_at_process(worker, interval_ms)
            else:
                self._look_at_order(worker.id, worker.current, now)
        return interval_ms / 1000

    def _look_at_process(self, worker: ProcessWorker, interval_ms: int) -> None:
        heard_ms = round(worker.heard * 1000)
        if self._watch is not None and is_hung(heard_ms, self._watch, interval_ms):
            silent_ms = round(ticks() * 1000) - heard_ms
            task_id = worker.current.lease.task.id if worker.current else None
            self._events.emit(WorkerStalled(worker.id, task_id, silent_ms))
            worker.kill()

    def _look_at_order(self, worker_id: str, order: Order | None, now: float) -> None:
        silent = now - order.heard if order else 0.0
        if order is not None and silent > self._wanted.stall_timeout and not order.told:
            order.told = True
            self._events.emit(WorkerStalled(worker_id, order.lease.task.id, round(silent * 1000)))

    async def _tidy(self) -> float:
        now = self._clock.now()
        done = await self.store.tidy(
            finished_before=now - round(self._wanted.keep_history_days * DAY_MS),
            steps_before=now - round(self._wanted.checkpoint_max_age_days * DAY_MS),
        )
        if done.archived or done.checkpoints:
            note = f"{done.archived} tasks archived, {done.checkpoints} checkpoints forgotten"
            self._events.emit(PoolNote("info", note))
        return TIDY_SECONDS
