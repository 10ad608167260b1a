"""From the queue to the workers and back: claims, assignments, verdicts."""

import asyncio
import random
from collections.abc import Sequence
from typing import assert_never

from msgspec import convert
from msgspec.structs import replace

from acode.clock import Clock, iso, ticks
from acode.engine.circuits import Circuits
from acode.engine.pauses import Pauses
from acode.engine.port import Assigner
from acode.engine.roster import Roster, Slot
from acode.engine.tenure import Tenure
from acode.errors import AcodeError, LeaseLost
from acode.model.ending import Exited, Lost, Released
from acode.model.event import PoolNote, TaskAssigned, TaskEnded, TaskRefused
from acode.model.state import Status, WorkerStatus
from acode.model.task import CancelWish, Lease, Result
from acode.model.verdict import (
    Cancel,
    Complete,
    Fail,
    Release,
    Report,
    RetryAt,
    Verdict,
)
from acode.observe.events import Events
from acode.policy.backpressure import Hold
from acode.policy.breaker import Breaker
from acode.policy.dispatch import Affinity, IdleWorker, match
from acode.policy.polling import Polling, next_rest
from acode.policy.retry import Outcome, Retry, decide
from acode.settings import Settings
from acode.store.base import Claim, Store
from acode.worker.messages import Action, Control, Ended, Why
from acode.worker.wire import FrameType

SKEW_MS = 20
"""Clocks that differ by less are the same."""
SETBACK_SECONDS = 5.0
"""How long the pool rests when the machine could not start a command."""


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
    ) -> None:
        self._tenure = tenure or Tenure()
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
        for lease in leases:
            await self._hand_over(lease)
        return bool(leases)

    def _claim(self, slots: Sequence[Slot]) -> Claim:
        # The assignment may run in the store's thread. So what it looks at is copied, but for the
        # affinities: there may be many, and it only looks some of them up.
        idle = [IdleWorker(slot.id, slot.load, slot.last_used) for slot in slots]
        allowances = self.circuits.allowances()
        held = [circuit for circuit, allowed in allowances.items() if allowed <= 0]
        return Claim(
            len(slots),
            lambda tasks: match(tasks, idle, self._affinity, allowances),
            [*held, *self.pauses.held()],
            self._tenure.host_id,
        )

    async def _hand_over(self, lease: Lease) -> None:
        slot = self._roster.get(lease.worker_id)
        if slot is None or slot.link is None or not slot.can_take:
            # It died while the claim was under way; nobody has seen the task.
            await self.released(lease, "its worker was gone before it began")
            return
        self._turn += 1
        slot.last_used = self._turn
        if lease.task.spec.workstream_id is not None:
            self._affinity.remember(lease.task.spec.workstream_id, slot.id)
        self.circuits.started(lease.task.spec)
        slot.take(lease)
        slot.link.send(FrameType.TASK, lease.token, self._orders.assignment(lease))
        waited = self._clock.now() - lease.task.ready_at
        self._events.emit(TaskAssigned(lease.task.id, slot.id, lease.number, max(0, waited)))

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
        self._respect_limit(lease, ended)
        if ended.leaves:
            slot.hang_up()
        ended = self._in_store_time(ended)
        goes_on = slot.link is not None and not slot.leaving
        then = self._claim([slot]) if goes_on and self._goes_on() else None
        crashes = await self._crashes(lease) if isinstance(ended.ending, Lost) else 0
        outcome = self._outcome(lease, ended, crashes)
        leases = await self._finish(lease, ended, outcome, then)
        if slot.lease is lease:
            self._set_free(slot, ended.token, bool(leases))
        for next_lease in leases:
            await self._hand_over(next_lease)

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
        ended = Ended(
            task_id=lease.task.id,
            token=lease.token,
            number=lease.number,
            ending=Lost(why),
            ended_at=self._clock.now(),
        )
        outcome = self._outcome(lease, ended, await self._crashes(lease))
        await self._finish(lease, ended, outcome, None)

    async def _crashes(self, lease: Lease) -> int:
        """How often the task has taken its worker with it, this time included."""
        record = await self._store.record(lease.task.id)
        return 1 + sum(isinstance(attempt.ending, Lost) for attempt in record.attempts)

    async def released(self, lease: Lease, why: str) -> None:
        """An attempt that never began, or was interrupted through no fault of the task."""
        ended = Ended(
            task_id=lease.task.id,
            token=lease.token,
            number=lease.number,
            ending=Released(why),
            ended_at=self._clock.now(),
        )
        await self._finish(lease, ended, self._outcome(lease, ended), None)

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
        ended = self._in_store_time(ended)
        await self._finish(lease, ended, self._outcome(lease, ended), None)

    def _in_store_time(self, ended: Ended) -> Ended:
        """Workers know the clock of this machine only."""
        ahead = self._clock.now() - self._local_clock.now()
        return ended if abs(ahead) < SKEW_MS else replace(ended, ended_at=ended.ended_at + ahead)

    def _outcome(self, lease: Lease, ended: Ended, crashes: int = 0) -> Outcome:
        code = ended.ending.code if isinstance(ended.ending, Exited) else None
        return Outcome(
            ending=ended.ending,
            attempt_count=lease.task.attempt_count,
            failure=ended.failure,
            result=Result(
                exit_code=code,
                branch=ended.branch,
                patch=ended.patch,
                artifacts=ended.artifacts,
                checks=ended.checks,
                value=ended.value,
                agent=ended.agent,
                push=ended.push,
            ),
            retry_limit=lease.task.spec.retry_limit,
            default_limit=self._tasks.retry_limit,
            crashes=crashes,
        )

    async def _finish(
        self, lease: Lease, ended: Ended, outcome: Outcome, then: Claim | None
    ) -> list[Lease]:
        verdict = decide(outcome, self._retry, self._clock.now(), random.random())  # noqa: S311 -- jitter
        report = Report(
            task_id=lease.task.id,
            token=lease.token,
            ending=ended.ending,
            ended_at=ended.ended_at,
            verdict=verdict,
            usage=ended.usage,
            ran_on=lease.ran_on,
        )
        try:
            leases = await self._write(report, then)
        except LeaseLost:
            self._events.emit(TaskRefused(lease.task.id, lease.worker_id))
            return []
        self._note(lease, verdict, ended.ended_at)
        return leases

    async def _write(self, report: Report, then: Claim | None) -> list[Lease]:
        """Write until it is on disk: an ending is never lost, however long a disk stays full."""
        while True:
            try:
                leases = await self._store.finish(report, then)
            except LeaseLost:
                raise
            except AcodeError as error:
                self._complain(error)
                await asyncio.sleep(self._polling.poll_interval_ms / 1000)
            else:
                self._trouble = None
                return leases

    def _note(self, lease: Lease, verdict: Verdict, ended_at: int) -> None:
        failure = verdict.failure if isinstance(verdict, Fail | RetryAt) else None
        completed = isinstance(verdict, Complete)
        self.circuits.ended(lease.task.spec, failure, completed=completed)
        slot = self._roster.get(lease.worker_id)
        if slot is not None and not isinstance(verdict, Release):
            slot.completed += completed
            slot.failed += not completed
            if failure is not None and slot.lease is lease and slot.status is WorkerStatus.BUSY:
                slot.move(WorkerStatus.ERROR)
        status, reason = _fate(verdict)
        task, counts = lease.task, not isinstance(verdict, Release)
        took = max(0, ended_at - (task.started_at or ended_at))
        told = (task.id, lease.worker_id, lease.number, status, reason, task.spec.kind)
        result = verdict.result
        self._events.emit(TaskEnded(*told, took, counts, failure=failure, result=result))


def _fate(verdict: Verdict) -> tuple[Status, str]:
    match verdict:
        case Complete():
            return Status.COMPLETED, "completed"
        case Fail(_, reason):
            return Status.FAILED, reason
        case Cancel(reason):
            return Status.CANCELLED, reason
        case RetryAt(_, _, reason) | Release(reason):
            return Status.PENDING, reason
        case _:
            assert_never(verdict)
