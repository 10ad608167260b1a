"""From the queue to the workers and back: claims, assignments, verdicts."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from math import ceil
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

from msgspec import convert
from msgspec.structs import replace

from acode.clock import Clock, iso, ticks
from acode.engine.circuits import Circuits
from acode.engine.outbox import Outbox
from acode.engine.pauses import Pauses
from acode.engine.port import Assigner
from acode.engine.roster import Roster, Slot
from acode.engine.tenure import Tenure
from acode.engine.verdicts import ended_as, event_of, outcome_of, report_of
from acode.errors import AcodeError, LeaseLost
from acode.model.ending import Lost, Released
from acode.model.event import PoolEvent, PoolNote, TaskAssigned, TaskRefused
from acode.model.state import WorkerStatus
from acode.model.task import CancelWish, Lease
from acode.model.verdict import (
    Complete,
    Release,
    Verdict,
)
from acode.observe.events import Events
from acode.policy.backpressure import Hold
from acode.policy.breaker import Breaker
from acode.policy.dispatch import Affinity, IdleWorker, match
from acode.policy.polling import Polling, next_rest
from acode.policy.retry import Retry, decide
from acode.settings import Settings
from acode.store.base import Circuit, Claim, Store, WholeKind
from acode.worker.messages import Action, Control, Ended, Why
from acode.worker.wire import FrameType

if TYPE_CHECKING:
    from acode.engine.luggage import Luggage

T = TypeVar("T")
Words = TypeVarTuple("Words")

SKEW_MS = 20
"""Clocks that differ by less are the same."""
SETBACK_SECONDS = 5.0
"""How long the pool rests when the machine could not start a command."""


def _draw() -> float:
    # Loaded by the first failure: whoever has it loaded pays for it again at every fork.
    import random

    return random.random()  # noqa: S311 -- jitter


class Dispatcher:
    """Claims for free workers only, and decides what becomes of every attempt."""

    def __init__(
        self,
        store: Store,
        roster: Roster,
        orders: Assigner,
        settings: Settings,
        clock: Clock,
        events: Events,
        pauses: Pauses | None = None,
        tenure: Tenure | None = None,
        store_clock: Clock | None = None,
        luggage: "Luggage | None" = None,
    ) -> None:
        self._tenure = tenure or Tenure()
        self._luggage = luggage
        self._store = store
        self._roster = roster
        self._orders = orders
        self._clock = store_clock or clock
        """What is written down is told in the time of the store."""
        self._local_clock = clock
        self._events = events
        self._tasks = settings.tasks
        self._limit = settings.workers.pool_limits.concurrent_tasks
        self._retry = convert(settings.retry, Retry, from_attributes=True)
        self.circuits = Circuits(convert(settings.breaker, Breaker, from_attributes=True), clock)
        self.pauses = pauses or Pauses(clock)
        self._polling = Polling(
            poll_interval_ms=settings.workers.poll_interval_ms,
            max_ms=settings.workers.idle_backoff_max_ms,
        )
        self._affinity = Affinity()
        self._turn = 0
        self._rest_ms = 0
        self._setback = ""
        self._setback_over = 0.0
        """Until when nothing is claimed because the machine is short of something."""
        self.outbox = Outbox(store, events, self._complain, self._polling.poll_interval_ms / 1000)
        self._trouble: str | None = None
        """Why the store did not take what was last written to it."""
        self.hold: Hold | None = None
        """Why no further task is begun, as the monitor sees it."""
        self.accepting = False
        """Whether tasks are claimed: not before recovery is over, not while the pool drains."""

    async def tick(self) -> float:
        """One look at the queue; how long to rest, in seconds."""
        try:
            if self._roster.busy():  # only what runs can be asked to end
                await self._obey_wishes()
            found = await self._claim_for(self._admitted(self._roster.free()))
            next_ready_in = None if found else await self._next_ready_in()
        except AcodeError as error:
            # A full disk or a locked store: lose nothing, say so, try again.
            self._complain(error)
            return self._polling.poll_interval_ms / 1000
        self._rest_ms = next_rest(self._rest_ms, found, self._polling, next_ready_in)
        return self._rest_ms / 1000

    @property
    def backpressure(self) -> str | None:
        """Why no task is begun at the moment although there may be some."""
        if ticks() < self._setback_over:
            return self._setback
        if self._tenure.is_over:
            return f"this host is cut off from the queue: {self._trouble or 'no renewal'}"
        return self._trouble or (self.hold.reason if self.hold else None)

    def _complain(self, error: AcodeError) -> None:
        trouble = f"{error.code}: {error}"
        if trouble != self._trouble:
            self._events.emit(PoolNote("error", trouble))
        self._trouble = trouble

    def _admitted(self, free: list[Slot]) -> list[Slot]:
        if not self._is_claiming():
            return []
        most = self._limit if self.hold is None else self.hold.least_running
        return free[: max(0, most - len(self._roster.busy()))]

    def _is_claiming(self) -> bool:
        return self.accepting and ticks() >= self._setback_over and not self._tenure.is_over

    def _goes_on(self) -> bool:
        """Whether whoever is done may have another task at once."""
        held = self.hold is not None and not self.hold.admits(len(self._roster.busy()) - 1)
        return self._is_claiming() and not held

    async def _next_ready_in(self) -> int | None:
        """When to look again, in milliseconds, although nobody rings."""
        if (setback := self._setback_over - ticks()) > 0:
            return ceil(1000 * setback)
        oldest = (await self._store.counts()).oldest_ready_at
        paused = self.pauses.next_end_in()
        if paused is not None and oldest is not None and oldest <= self._clock.now():
            return paused  # what is ready may be just what is paused
        return None if oldest is None else oldest - self._clock.now()

    async def _claim_for(self, slots: list[Slot]) -> bool:
        if not slots:
            return False
        for slot in slots:
            slot.reserved = True
        try:
            leases = await self._store.claim(self._claim(slots))
        finally:
            for slot in slots:
                slot.reserved = False
        self._trouble = None
        self.outbox.put(await self._hand_over(leases))
        return bool(leases)

    def _claim(self, slots: Sequence[Slot]) -> Claim:
        # The assignment may run in the store's thread. So what it looks at is copied, but for the
        # affinities: there may be many, and it only looks some of them up.
        allowances, host_id = self.circuits.allowances(), self._tenure.host_id
        held: list[Circuit | WholeKind] = [*self.pauses.held()]
        if allowances:
            held += [circuit for circuit, allowed in allowances.items() if allowed <= 0]
        elif len(slots) == 1:
            return Claim(1, slots[0].alone, held, host_id)
        idle = [IdleWorker(slot.id, slot.load, slot.last_used) for slot in slots]
        return Claim(
            len(slots),
            lambda tasks: match(tasks, idle, self._affinity, allowances),
            held,
            host_id,
        )

    async def _hand_over(self, leases: Sequence[Lease]) -> list[PoolEvent]:
        """Give each worker its task; what is to be told of it.

        A task that has one try only must not have another one because a power cut undid its claim.
        """
        if self._store.settles_later and [one for one in leases if self._retries(one) == 0]:
            await self.outbox.settled()
        told: list[PoolEvent] = []
        for lease in leases:
            if not self._give(lease):
                await self.released(lease, "its worker was gone before it began")
            elif self._events.is_heard(TaskAssigned):
                waited = max(0, self._clock.now() - lease.task.ready_at)
                told.append(TaskAssigned(lease.task.id, lease.worker_id, lease.number, waited))
        return told

    def _retries(self, lease: Lease) -> int:
        own = lease.task.spec.retry_limit
        return self._tasks.retry_limit if own is None else own

    def _give(self, lease: Lease) -> bool:
        slot = self._roster.get(lease.worker_id)
        if slot is None or slot.link is None or not slot.can_take:
            return False  # it died while the claim was under way; nobody has seen the task
        self._turn += 1
        slot.last_used = self._turn
        if lease.task.spec.workstream_id is not None:
            self._affinity.remember(lease.task.spec.workstream_id, slot.id)
        self.circuits.started(lease.task.spec)
        if self._luggage is not None:
            self._luggage.bring(lease)
        slot.take(lease)
        slot.link.send(FrameType.TASK, lease.token, self._orders.assignment(lease))
        return True

    async def _obey_wishes(self) -> None:
        for task in await self._store.wishes():
            slot = self._roster.get(task.worker_id or "")
            if slot is None or slot.lease is None or slot.lease.task.id != task.id:
                continue
            wish = (slot.lease.token, task.cancel)
            if slot.link is not None and slot.told != wish:
                slot.told = wish
                force = task.cancel is CancelWish.FORCE
                order = Control(
                    action=Action.ABORT, token=slot.lease.token, why=Why.CANCEL, force=force
                )
                slot.link.send(FrameType.CONTROL, slot.lease.token, order)

    async def ended(self, slot: Slot, ended: Ended) -> None:
        """A worker reports the end of its attempt."""
        lease = slot.lease
        if lease is None or lease.token != ended.token:
            self._acknowledge(slot, ended.token)
            return
        if ended.setback is not None:
            self._rest_after_setback(ended.setback)
        if ended.agent is not None:
            self._respect_limit(lease, ended)
        if ended.leaves:
            slot.hang_up()
        ended = self._in_store_time(ended)
        goes_on = slot.link is not None and not slot.leaving
        then = self._claim([slot]) if goes_on and self._goes_on() else None
        crashes = await self._crashes(lease) if isinstance(ended.ending, Lost) else 0
        end, leases = await self._finish(lease, ended, crashes, then)
        if slot.lease is lease:
            self._set_free(slot, ended.token, bool(leases))
        # The worker goes on at once; whoever watches hears of it when it is on disk.
        self.outbox.put([end, *await self._hand_over(leases)])

    def _rest_after_setback(self, why: str) -> None:
        self._setback = f"no task can be started: {why}"
        self._setback_over = ticks() + SETBACK_SECONDS
        note = f"{self._setback}; trying again in {SETBACK_SECONDS:g} s"
        self._events.emit(PoolNote("error", note))

    def _respect_limit(self, lease: Lease, ended: Ended) -> None:
        """A service that takes no more requests is not asked again before it does."""
        limit = ended.agent.limit if ended.agent is not None else None
        if limit is None or not isinstance(ended.ending, Released):
            return
        kind, until = lease.task.spec.kind, limit.resets_at or ended.ended_at
        if self.pauses.hold(kind, until, limit.message):
            note = f"{kind} tasks are paused until {iso(until)}: {limit.message}"
            self._events.emit(PoolNote("warning", note))

    def _set_free(self, slot: Slot, token: str, has_next: bool) -> None:
        slot.lease = None
        if has_next and slot.status is WorkerStatus.BUSY:
            return  # it goes from one task to the next
        if slot.status is WorkerStatus.BUSY or slot.status is WorkerStatus.ERROR:
            slot.move(WorkerStatus.IDLE)
        if not has_next:
            self._acknowledge(slot, token)

    def _acknowledge(self, slot: Slot, token: str) -> None:
        if slot.link is not None:
            order = Control(action=Action.ACKNOWLEDGE, token=token)
            slot.link.send(FrameType.CONTROL, token, order)

    async def lost(self, lease: Lease, why: str) -> None:
        """An attempt whose worker is proven dead."""
        ended = ended_as(lease, Lost(why), self._clock.now())
        await self._conclude(lease, ended, await self._crashes(lease))

    async def _crashes(self, lease: Lease) -> int:
        """How often the task has taken its worker with it, this time included."""
        record = await self._store.record(lease.task.id)
        return 1 + sum(isinstance(attempt.ending, Lost) for attempt in record.attempts)

    async def released(self, lease: Lease, why: str) -> None:
        """An attempt that never began, or was interrupted through no fault of the task."""
        await self._conclude(lease, ended_as(lease, Released(why), self._clock.now()))

    async def recalled(self, slot: Slot, why: str) -> None:
        """What a worker was meant to run and knows nothing of."""
        lease = slot.lease
        if lease is not None:
            await self.released(lease, why)
            if slot.lease is lease:
                self._set_free(slot, lease.token, has_next=False)

    async def spooled(self, lease: Lease, ended: Ended) -> None:
        """An ending that its worker left on disk."""
        self._respect_limit(lease, ended)
        await self._conclude(lease, self._in_store_time(ended))

    async def _conclude(self, lease: Lease, ended: Ended, crashes: int = 0) -> None:
        end, _ = await self._finish(lease, ended, crashes, None)
        self.outbox.put([end])

    def _in_store_time(self, ended: Ended) -> Ended:
        """Workers know the clock of this machine only."""
        if self._clock is self._local_clock:
            return ended
        ahead = self._clock.now() - self._local_clock.now()
        return ended if abs(ahead) < SKEW_MS else replace(ended, ended_at=ended.ended_at + ahead)

    async def _finish(
        self, lease: Lease, ended: Ended, crashes: int, then: Claim | None
    ) -> tuple[PoolEvent, list[Lease]]:
        """Write the end and claim what is next; what is to be told when it is on disk."""
        outcome = outcome_of(lease, ended, self._tasks.retry_limit, crashes)
        verdict = decide(outcome, self._retry, self._clock.now(), _draw)
        report = report_of(lease, ended, verdict)
        try:
            if self._luggage is not None and not isinstance(verdict, Complete):
                await self._insist(self._luggage.keep, lease)
            leases = await self._insist(self._store.finish, report, then)
        except LeaseLost:
            return TaskRefused(lease.task.id, lease.worker_id), []
        self._note(lease, verdict)
        return event_of(lease, verdict, ended.ended_at), leases

    async def _insist(self, write: Callable[[*Words], Awaitable[T]], *words: *Words) -> T:
        """Write until it is on disk: an ending is never lost, however long a disk stays full."""
        while True:
            try:
                done = await write(*words)
            except LeaseLost:
                raise
            except AcodeError as error:
                self._complain(error)
                await asyncio.sleep(self._polling.poll_interval_ms / 1000)
            else:
                self._trouble = None
                return done

    def _note(self, lease: Lease, verdict: Verdict) -> None:
        failure = verdict.failure
        completed = isinstance(verdict, Complete)
        self.circuits.ended(lease.task.spec, failure, completed=completed)
        slot = self._roster.get(lease.worker_id)
        if slot is not None and not isinstance(verdict, Release):
            slot.completed += completed
            slot.failed += not completed
            if failure is not None and slot.lease is lease and slot.status is WorkerStatus.BUSY:
                slot.move(WorkerStatus.ERROR)
