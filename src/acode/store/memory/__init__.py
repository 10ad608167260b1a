"""The memory store: the same contract on plain dictionaries, for tests and embedded pools."""

from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from acode.clock import Clock
from acode.errors import LeaseLost, UsageError
from acode.model.state import FINISHED, Status
from acode.model.task import Attempt, Lease, Move, Push, Submission, Task
from acode.model.verdict import Report
from acode.store import transitions
from acode.store.admission import admit
from acode.store.base import Added, Claim, Ring, Seen, Tidied
from acode.store.memory.entry import Entry, ended
from acode.store.memory.intake import present
from acode.store.memory.shelf import Shelf

AGEING_MS = 600_000
NEEDY = (Status.BLOCKED, Status.CANCELLED)
"""Such a task waits for others, or will when it is retried."""
DONE = (Status.COMPLETED, Status.CANCELLED)
"""Nobody need know of such a task any more."""


class MemoryStore(Shelf):
    """Keeps everything in this process; nothing survives it."""

    settles_later = False

    def __init__(
        self, clock: Clock, *, ageing_ms: int = AGEING_MS, keep: int | None = None
    ) -> None:
        super().__init__(clock, ageing_ms)
        self._keep = keep  # so many finished tasks are remembered; dead letters in any case
        self._finished: deque[str] = deque()
        self._arrivals = 0

    async def add(
        self,
        submissions: Sequence[Submission],
        *,
        actor: str,
        queue_size: int,
        seen: Seen | None = None,
        ring: Ring | None = None,
    ) -> list[Added]:
        """Store tasks, all or none."""
        self._check_open()
        known = present(submissions, self._entries, self._archive, self._keys, self._waiting())
        admitted = admit(submissions, known, queue_size=queue_size, now=self._clock.now())
        for task in admitted.tasks:
            self._enter(task, actor)
        for task in admitted.tasks:
            for need in self._known(task.spec.dependencies):
                need.dependents += (task.id,)
        if seen is not None:
            seen(admitted.added)
        if ring is not None:
            ring()
        return admitted.added

    async def cancel(self, task_id: str, *, actor: str, force: bool = False) -> Task:
        """Cancel a waiting task, or write the wish that a running one should end."""
        entry = self._entry(task_id)
        step = transitions.cancelled(entry.task, force=force, now=self._clock.now())
        if step.task.status is Status.RUNNING:
            entry.task = step.task
            self._wished.add(task_id)
            return step.task
        return self._move(entry, step, actor, self._clock.now())

    async def retry(self, task_id: str, *, actor: str, reset_attempts: bool = False) -> Task:
        """Queue a failed or cancelled task again, going on after its finished steps."""
        entry = self._entry(task_id)
        now = self._clock.now()
        step = transitions.retried(entry.task, reset_attempts=reset_attempts, now=now)
        self._move(entry, step, actor, now)
        if letter := self._letters.pop(task_id, None):
            entry.steps = {name: (value, now) for name, value in letter.checkpoint.items()}
        if not self._is_free(entry):
            self._move(entry, transitions.blocked(entry.task), actor, now)
        return entry.task

    async def drop(self, task_id: str, *, actor: str) -> Task:
        """Give a dead letter up."""
        entry = self._entry(task_id)
        step = transitions.dropped(entry.task, self._clock.now())
        del self._letters[task_id]
        return self._move(entry, step, actor, self._clock.now())

    async def pause(self, paused: bool, *, actor: str) -> bool:
        """Hold every claim, or let them go on."""
        self._check_open()
        changed = paused is (self._paused_by is None)
        self._paused_by = actor if paused else None
        return changed

    async def claim(self, wanted: Claim) -> list[Lease]:
        """Lease the most urgent ready tasks."""
        self._check_open()
        return self._claim(wanted, self._clock.now())

    def _claim(self, wanted: Claim, now: int) -> list[Lease]:
        if self._paused_by is not None or wanted.limit <= 0:
            return []
        entries = self._ready.first(wanted.limit, wanted.held, now)
        if not entries:
            return []
        workers = wanted.assign([entry.task for entry in entries])
        given = list(zip(entries, workers, strict=True))  # all fit, or none is leased
        return [self._lease(entry, id_, wanted.host_id, now) for entry, id_ in given if id_]

    def _lease(self, entry: Entry, worker_id: str, host_id: str | None, now: int) -> Lease:
        task = transitions.claimed(entry.task, worker_id, now, host_id)
        number = task.last_attempt
        token = entry.token = f"{task.id}.{number}"  # nobody else can have this number
        attempt = Attempt(number=number, worker_id=worker_id, host_id=host_id, started_at=now)
        entry.attempts += (attempt,)
        step = transitions.Step(task, f"attempt {number}")
        self._move(entry, step, f"worker-{worker_id}", now)
        return Lease(
            task=task, number=number, token=token, worker_id=worker_id, steps=entry.values()
        )

    async def finish(self, report: Report, then: Claim | None = None) -> list[Lease]:
        """Write the end of an attempt and claim what is next."""
        entry = self._held_by(report.task_id, report.token)
        step = transitions.finished(entry.task, report)
        *before, last = entry.attempts
        entry.attempts = (*before, ended(last, report))
        entry.token = None
        self._wished.discard(report.task_id)
        now = self._clock.now()
        self._move(entry, step, report.actor, now)
        if step.task.status is Status.FAILED:
            self._bury(entry)
        elif step.task.status is Status.COMPLETED:
            entry.steps = None
            self._unblock(entry)
        return self._claim(then, now) if then is not None else []

    def _bury(self, entry: Entry) -> None:
        failures = [a.ended_at for a in entry.attempts if a.error and a.ended_at is not None]
        letter = transitions.dead_letter(entry.task, min(failures), entry.values())
        self._letters[entry.task.id] = letter
        entry.steps = None

    def _unblock(self, entry: Entry) -> None:
        for task_id in entry.dependents:
            dependent = self._entries.get(task_id)
            if dependent and dependent.task.status is Status.BLOCKED and self._is_free(dependent):
                step = transitions.unblocked(dependent.task, self._clock.now())
                self._move(dependent, step, "store", self._clock.now())

    async def settled(self) -> None:
        """There is no disk to wait for."""
        self._check_open()

    async def save_step(self, task_id: str, token: str, step: str, value: Any) -> None:
        """Keep the value of a finished step."""
        entry = self._held_by(task_id, token)
        # A copy by way of JSON, as a durable store would make it.
        kept = msgspec.json.decode(msgspec.json.encode(value))
        entry.steps = (entry.steps or {}) | {step: (kept, self._clock.now())}

    async def pushed(self, task_id: str, number: int, push: Push) -> None:
        """Note what became of the branch of a completed attempt."""
        entry = self._entry(task_id)
        entry.task = transitions.pushed(entry.task, number, push) or entry.task

    async def backup(self, path: str) -> None:
        """There is no file to copy."""
        self._check_open()
        raise UsageError(f"a store in memory cannot be backed up to {path}", "use a sqlite store")

    async def tidy(self, *, finished_before: int, steps_before: int) -> Tidied:
        """Archive old finished tasks; remove old checkpoints of finished ones."""
        self._check_open()
        archived = 0
        # Again and again: a cancelled task frees the one that it would wait for.
        while old := [e for e in self._entries.values() if self._is_old(e, finished_before)]:
            for entry in old:
                self._put_away(entry)
            archived += len(old)
        return Tidied(archived=archived, checkpoints=self._forget_steps(steps_before))

    def _forget_steps(self, before: int) -> int:
        forgotten = 0
        for entry in self._entries.values():
            if entry.task.status in FINISHED and entry.steps:
                kept = {n: step for n, step in entry.steps.items() if step[1] >= before}
                forgotten += len(entry.steps) - len(kept)
                entry.steps = kept
        return forgotten

    def _is_old(self, entry: Entry, before: int) -> bool:
        task = entry.task
        return (
            task.status in DONE
            and task.completed_at is not None
            and task.completed_at < before
            and not self._is_needed(entry)
        )

    def _is_needed(self, entry: Entry) -> bool:
        if not entry.dependents:
            return False
        return any(one.task.status in NEEDY for one in self._known(entry.dependents))

    def _put_away(self, entry: Entry) -> None:
        task = entry.task
        self._archive[task.id] = entry.record()
        self._remove(entry)

    def _remove(self, entry: Entry) -> None:
        task = entry.task
        del self._entries[task.id]
        self._counts[task.status][entry.level] -= 1
        if task.spec.key is not None:
            del self._keys[task.spec.key]

    def _held_by(self, task_id: str, token: str) -> Entry:
        self._check_open()
        entry = self._entries.get(task_id)
        if entry is None or entry.token != token:
            raise LeaseLost(f"the attempt of task {task_id} is not current")
        return entry

    def _is_free(self, entry: Entry) -> bool:
        needs = self._known(entry.task.spec.dependencies)
        return all(need.task.status is Status.COMPLETED for need in needs)

    def _enter(self, task: Task, actor: str) -> None:
        self._arrivals += 1
        entry = Entry(task, task.spec.priority.level, self._arrivals, [])
        self._entries[task.id] = entry
        if task.spec.key is not None:
            self._keys[task.spec.key] = task.id
        self._counts[task.status][entry.level] += 1
        self._note(entry, None, "added", actor, task.created_at)

    def _move(self, entry: Entry, step: transitions.Step, actor: str, now: int) -> Task:
        was, task = entry.task.status, step.task
        transitions.guard(was, task.status)
        entry.task = task
        self._counts[was][entry.level] -= 1
        self._counts[task.status][entry.level] += 1
        self._note(entry, was, step.reason, actor, now)
        if self._keep is not None and task.status in DONE:
            self._finished.append(task.id)
            if len(self._finished) > self._keep:
                self._forget(self._finished.popleft(), now)
        return task

    def _note(self, entry: Entry, was: Status | None, reason: str, actor: str, now: int) -> None:
        status = entry.task.status
        self._seq += 1
        move = Move(
            seq=self._seq,
            task_id=entry.task.id,
            was=was,
            became=status,
            at=now,
            actor=actor,
            reason=reason,
        )
        entry.moves.append(move)
        if status is Status.PENDING:
            self._ready.put(entry)

    def _forget(self, task_id: str, now: int) -> None:
        """The oldest finished task, unless it was retried or others may look back at it."""
        entry = self._entries.get(task_id)
        if entry and self._is_old(entry, now + 1):
            self._remove(entry)
