"""The memory store: the same contract on plain dictionaries, for tests and embedded pools."""

import os
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from acode.clock import Clock
from acode.errors import AmbiguousId, LeaseLost, TaskNotFound, UsageError
from acode.ids import is_prefix, normalise
from acode.model.priority import Priority
from acode.model.state import FINISHED, Status
from acode.model.task import Attempt, DeadLetter, Lease, Move, Push, Record, Submission, Task
from acode.model.verdict import Report
from acode.store import transitions
from acode.store.admission import admit
from acode.store.base import Added, Claim, Counts, TaskQuery, Tidied
from acode.store.memory.entry import Entry, ended
from acode.store.memory.hosts import Hosting
from acode.store.memory.intake import present
from acode.store.memory.listing import fits, place
from acode.store.memory.ready import ReadyTasks

AGEING_MS = 600_000
NEEDY = (Status.BLOCKED, Status.CANCELLED)
"""Such a task waits for others, or will when it is retried."""


class MemoryStore(Hosting):
    """Keeps everything in this process; nothing survives it."""

    def __init__(
        self, clock: Clock, *, ageing_ms: int = AGEING_MS, keep: int | None = None
    ) -> None:
        super().__init__(clock)
        self._keep = keep  # so many finished tasks are remembered; dead letters in any case
        self._finished: deque[str] = deque()
        self._wished: set[str] = set()
        self._entries: dict[str, Entry] = {}
        self._archive: dict[str, Record] = {}
        self._keys: dict[str, str] = {}
        self._letters: dict[str, DeadLetter] = {}
        self._moves: dict[int, Move] = {}
        self._ready = ReadyTasks(ageing_ms)
        self._counts = dict.fromkeys(((s, p) for s in Status for p in Priority), 0)
        self._paused_by: str | None = None
        self._arrivals = 0
        self._seq = 0

    async def add(
        self, submissions: Sequence[Submission], *, actor: str, queue_size: int
    ) -> list[Added]:
        """Store tasks, all or none."""
        self._check_open()
        known = present(submissions, self._entries, self._archive, self._keys, self._waiting())
        admitted = admit(submissions, known, queue_size=queue_size, now=self._clock.now())
        for task in admitted.tasks:
            self._enter(Entry(task), actor)
        for task in admitted.tasks:
            for need in self._known(task.spec.dependencies):
                need.dependents.append(task.id)
        return admitted.added

    async def cancel(self, task_id: str, *, actor: str, force: bool = False) -> Task:
        """Cancel a waiting task, or write the wish that a running one should end."""
        entry = self._entry(task_id)
        step = transitions.cancelled(entry.task, force=force, now=self._clock.now())
        if step.task.status is Status.RUNNING:
            entry.task = step.task
            self._wished.add(task_id)
            return step.task
        return self._move(entry, step, actor)

    async def retry(self, task_id: str, *, actor: str, reset_attempts: bool = False) -> Task:
        """Queue a failed or cancelled task again, going on after its finished steps."""
        entry = self._entry(task_id)
        now = self._clock.now()
        step = transitions.retried(entry.task, reset_attempts=reset_attempts, now=now)
        self._move(entry, step, actor)
        if letter := self._letters.pop(task_id, None):
            entry.steps = {name: (value, now) for name, value in letter.checkpoint.items()}
        if not self._is_free(entry):
            self._move(entry, transitions.blocked(entry.task), actor)
        return entry.task

    async def drop(self, task_id: str, *, actor: str) -> Task:
        """Give a dead letter up."""
        entry = self._entry(task_id)
        step = transitions.dropped(entry.task, self._clock.now())
        del self._letters[task_id]
        return self._move(entry, step, actor)

    async def pause(self, paused: bool, *, actor: str) -> bool:
        """Hold every claim, or let them go on."""
        self._check_open()
        changed = paused is (self._paused_by is None)
        self._paused_by = actor if paused else None
        return changed

    async def claim(self, wanted: Claim) -> list[Lease]:
        """Lease the most urgent ready tasks."""
        self._check_open()
        if self._paused_by is not None or wanted.limit <= 0:
            return []
        entries = self._ready.first(wanted.limit, wanted.held, self._clock.now())
        workers = wanted.assign([entry.task for entry in entries]) if entries else ()
        given = list(zip(entries, workers, strict=True))
        return [self._lease(entry, worker, wanted.host_id) for entry, worker in given if worker]

    def _lease(self, entry: Entry, worker_id: str, host_id: str | None) -> Lease:
        now = self._clock.now()
        task = transitions.claimed(entry.task, worker_id, now, host_id)
        number, entry.token = task.last_attempt, os.urandom(16).hex()
        attempt = Attempt(number=number, worker_id=worker_id, host_id=host_id, started_at=now)
        entry.attempts.append(attempt)
        step = transitions.Step(task, f"attempt {number}")
        self._move(entry, step, f"worker-{worker_id}")
        steps = {name: value for name, (value, _) in entry.steps.items()}
        return Lease(task=task, number=number, token=entry.token, worker_id=worker_id, steps=steps)

    async def finish(self, report: Report, then: Claim | None = None) -> list[Lease]:
        """Write the end of an attempt and claim what is next."""
        entry = self._held_by(report.task_id, report.token)
        step = transitions.finished(entry.task, report)
        entry.attempts[-1] = ended(entry.attempts[-1], report)
        entry.token = None
        self._wished.discard(report.task_id)
        self._move(entry, step, report.actor)
        if step.task.status is Status.FAILED:
            self._bury(entry)
        elif step.task.status is Status.COMPLETED:
            entry.steps = {}
            self._unblock(entry)
        return await self.claim(then) if then is not None else []

    def _bury(self, entry: Entry) -> None:
        failures = [a.ended_at for a in entry.attempts if a.error and a.ended_at is not None]
        steps = {name: value for name, (value, _) in entry.steps.items()}
        letter = transitions.dead_letter(entry.task, min(failures), steps)
        self._letters[entry.task.id] = letter
        entry.steps = {}

    def _unblock(self, entry: Entry) -> None:
        for task_id in entry.dependents:
            dependent = self._entries.get(task_id)
            if dependent and dependent.task.status is Status.BLOCKED and self._is_free(dependent):
                step = transitions.unblocked(dependent.task, self._clock.now())
                self._move(dependent, step, "store")

    async def save_step(self, task_id: str, token: str, step: str, value: Any) -> None:
        """Keep the value of a finished step."""
        entry = self._held_by(task_id, token)
        # A copy by way of JSON, as a durable store would make it.
        kept = msgspec.json.decode(msgspec.json.encode(value))
        entry.steps[step] = (kept, self._clock.now())

    async def pushed(self, task_id: str, number: int, push: Push) -> None:
        """Note what became of the branch of a completed attempt."""
        entry = self._entry(task_id)
        entry.task = transitions.pushed(entry.task, number, push) or entry.task

    async def leases(self, host_id: str | None = None) -> list[Lease]:
        """Every lease that is out, or those of one host."""
        self._check_open()
        return [
            Lease(
                task=entry.task,
                number=entry.task.last_attempt,
                token=entry.token,
                worker_id=entry.task.worker_id or "",
            )
            for entry in self._entries.values()
            if entry.token is not None and host_id in (None, entry.task.host_id)
        ]

    async def wishes(self) -> list[Task]:
        """Running tasks that a user wants to end."""
        self._check_open()
        wished = sorted(self._known(self._wished), key=lambda entry: entry.seq)
        return [entry.task for entry in wished]

    async def resolve(self, prefix: str) -> str:
        """The one id that begins so."""
        self._check_open()
        low = normalise(prefix)
        if not is_prefix(low):
            raise TaskNotFound(f"{prefix!r} is not an id or the beginning of one")
        found = [
            id_ for ids in (self._entries, self._archive) for id_ in ids if id_.startswith(low)
        ]
        if not found:
            raise TaskNotFound(f"no task has an id that begins with {low}")
        if len(found) > 1:
            raise AmbiguousId(f"more than one task has an id that begins with {low}")
        return found[0]

    async def get(self, task_id: str) -> Task:
        """One task."""
        return (await self.record(task_id)).task

    async def record(self, task_id: str) -> Record:
        """One task with its attempts and its history."""
        self._check_open()
        if task_id in self._archive:
            return self._archive[task_id]
        entry = self._entry(task_id)
        return Record(entry.task, tuple(entry.attempts), tuple(entry.moves))

    async def find(self, query: TaskQuery) -> list[Task]:
        """Tasks that fit."""
        self._check_open()
        fitting = [entry for entry in self._entries.values() if fits(entry.task, query)]
        fitting.sort(key=lambda entry: place(entry, query.sort.by), reverse=query.sort.reverse)
        return [entry.task for entry in fitting[query.offset : query.offset + query.limit]]

    async def moves(self, since: int, limit: int = 1000) -> list[Move]:
        """Moves of all tasks after that sequence number."""
        self._check_open()
        return [move for seq, move in self._moves.items() if seq > since][:limit]

    async def newest_move(self) -> int:
        """The sequence number of the last move."""
        self._check_open()
        return self._seq

    async def arrivals(self, since: int, until: int) -> int:
        """How many tasks were added after one move and up to another."""
        self._check_open()
        moves = self._moves.values()
        return sum(move.was is None and since < move.seq <= until for move in moves)

    async def counts(self) -> Counts:
        """The queue at a glance."""
        self._check_open()
        by_status = {s: sum(self._counts[s, p] for p in Priority) for s in Status}
        return Counts(
            by_status=by_status,
            pending_by_priority={p: self._counts[Status.PENDING, p] for p in Priority},
            paused=self._paused_by is not None,
            oldest_ready_at=self._ready.oldest(),
        )

    async def dead_letters(self, task_id: str | None = None) -> list[DeadLetter]:
        """Tasks that failed for good, the newest first."""
        self._check_open()
        if task_id is not None:
            return [self._letters[task_id]] if task_id in self._letters else []
        return list(reversed(self._letters.values()))

    async def check(self) -> list[str]:
        """Everything that is wrong: tallies and letters that do not fit the tasks."""
        self._check_open()
        there = Counter((e.task.status, e.task.spec.priority) for e in self._entries.values())
        wrong = [
            f"{noted} {kind[0]} {kind[1]} tasks are noted, {there[kind]} are there"
            for kind, noted in self._counts.items()
            if there[kind] != noted
        ]
        failed = {i for i, e in self._entries.items() if e.task.status is Status.FAILED}
        wrong += [f"task {id_} and its dead letter disagree" for id_ in failed ^ set(self._letters)]
        return wrong

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
            if entry.task.status in FINISHED:
                kept = {n: step for n, step in entry.steps.items() if step[1] >= before}
                forgotten += len(entry.steps) - len(kept)
                entry.steps = kept
        return forgotten

    def _is_old(self, entry: Entry, before: int) -> bool:
        task = entry.task
        return (
            task.status in (Status.COMPLETED, Status.CANCELLED)
            and task.completed_at is not None
            and task.completed_at < before
            and not any(d.task.status in NEEDY for d in self._known(entry.dependents))
        )

    def _put_away(self, entry: Entry) -> None:
        task = entry.task
        self._archive[task.id] = Record(task, tuple(entry.attempts), tuple(entry.moves))
        self._remove(entry)

    def _remove(self, entry: Entry) -> None:
        task = entry.task
        del self._entries[task.id]
        self._counts[task.status, task.spec.priority] -= 1
        for move in entry.moves:
            del self._moves[move.seq]
        if task.spec.key is not None:
            del self._keys[task.spec.key]

    async def close(self) -> None:
        """Refuse everything from now on."""
        self._closed = True

    def _entry(self, task_id: str) -> Entry:
        self._check_open()
        entry = self._entries.get(task_id)
        if entry is None:
            raise TaskNotFound(f"no task has the id {task_id}")
        return entry

    def _held_by(self, task_id: str, token: str) -> Entry:
        self._check_open()
        entry = self._entries.get(task_id)
        if entry is None or entry.token != token:
            raise LeaseLost(f"the attempt of task {task_id} is not current")
        return entry

    def _known(self, task_ids: Iterable[str]) -> list[Entry]:
        return [self._entries[task_id] for task_id in task_ids if task_id in self._entries]

    def _is_free(self, entry: Entry) -> bool:
        needs = self._known(entry.task.spec.dependencies)
        return all(need.task.status is Status.COMPLETED for need in needs)

    def _waiting(self) -> int:
        return sum(
            self._counts[status, priority]
            for status in (Status.PENDING, Status.BLOCKED)
            for priority in Priority
        )

    def _enter(self, entry: Entry, actor: str) -> None:
        self._arrivals += 1
        entry.seq = self._arrivals
        self._entries[entry.task.id] = entry
        if entry.task.spec.key is not None:
            self._keys[entry.task.spec.key] = entry.task.id
        self._counts[entry.task.status, entry.task.spec.priority] += 1
        self._note(entry, None, "added", actor)

    def _move(self, entry: Entry, step: transitions.Step, actor: str) -> Task:
        was = entry.task.status
        transitions.guard(was, step.task.status)
        entry.task = step.task
        self._counts[was, step.task.spec.priority] -= 1
        self._counts[step.task.status, step.task.spec.priority] += 1
        self._note(entry, was, step.reason, actor)
        return step.task

    def _note(self, entry: Entry, was: Status | None, reason: str, actor: str) -> None:
        task = entry.task
        self._seq += 1
        move = Move(
            seq=self._seq,
            task_id=task.id,
            was=was,
            became=task.status,
            at=self._clock.now(),
            actor=actor,
            reason=reason,
        )
        entry.moves.append(move)
        self._moves[move.seq] = move
        if task.status is Status.PENDING:
            self._ready.put(entry)
        elif self._keep is not None and task.status in (Status.COMPLETED, Status.CANCELLED):
            self._finished.append(task.id)
            if len(self._finished) > self._keep:
                self._forget(self._finished.popleft())

    def _forget(self, task_id: str) -> None:
        """The oldest finished task, unless it was retried or others may look back at it."""
        entry = self._entries.get(task_id)
        if entry and self._is_old(entry, self._clock.now() + 1):
            self._remove(entry)
