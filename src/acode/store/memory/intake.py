"""Adding tasks to the memory store: check everything, then take everything."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from acode.errors import InvalidTask, QueueFull, TaskNotFound
from acode.model.state import Status
from acode.model.task import Record, Submission
from acode.store import transitions
from acode.store.base import Added
from acode.store.memory.entry import Entry


class Intake:
    """One call of `add`."""

    def __init__(
        self, entries: Mapping[str, Entry], archive: Mapping[str, Record], keys: dict[str, str]
    ) -> None:
        self._entries = entries
        self._archive = archive
        self._keys = keys
        self._new: dict[str, Entry] = {}
        self._named: dict[str, str] = {}

    def take(
        self, submissions: Sequence[Submission], waiting: int, queue_size: int, now: int
    ) -> tuple[list[Added], list[Entry]]:
        """What became of each submission, and the entries that are new."""
        self._check(submissions, waiting, queue_size)
        for submission in submissions:
            self._name(submission)
        done = [self._added(submission, now) for submission in submissions]
        for task_id, entry in self._new.items():
            for need in entry.task.spec.dependencies:
                if there := self._new.get(need) or self._entries.get(need):
                    there.dependents.append(task_id)
        return done, list(self._new.values())

    def _check(self, submissions: Sequence[Submission], waiting: int, queue_size: int) -> None:
        ids = {submission.id for submission in submissions}
        new = [s for s in submissions if s.spec.key not in self._keys]
        if new and waiting + len(new) > queue_size:
            raise QueueFull(
                f"{waiting} tasks wait and the queue holds {queue_size}; {len(new)} more do not fit"
            )
        for submission in new:
            for need in submission.spec.dependencies:
                if need == submission.id:
                    raise InvalidTask(f"task {need} cannot wait for itself")
                if need not in ids:
                    self._check_need(need)

    def _check_need(self, need: str) -> None:
        if need in self._entries:
            return
        if need not in self._archive:
            raise TaskNotFound(f"no task has the id {need}, which another one waits for")
        if self._archive[need].task.status is not Status.COMPLETED:
            raise InvalidTask(f"task {need}, which another one waits for, was cancelled long ago")

    def _name(self, submission: Submission) -> None:
        """Note which id the task will go by: its own, or that of the one with its key."""
        key = submission.spec.key
        if key is None:
            self._named[submission.id] = submission.id
        else:
            self._named[submission.id] = self._keys.setdefault(key, submission.id)

    def _added(self, submission: Submission, now: int) -> Added:
        task_id = self._named[submission.id]
        if task_id != submission.id:
            there = self._new.get(task_id) or self._entries[task_id]
            return Added(task_id, there.task.status, existed=True)
        named = (self._named.get(need, need) for need in submission.spec.dependencies)
        needs = tuple(dict.fromkeys(named))
        spec = replace(submission.spec, dependencies=needs)
        blocked = not all(self._is_completed(need) for need in needs)
        task = transitions.added(Submission(submission.id, spec), blocked=blocked, now=now)
        self._new[task_id] = Entry(task)
        return Added(task_id, task.status)

    def _is_completed(self, need: str) -> bool:
        if need in self._archive:
            return True
        there = self._entries.get(need)
        return there is not None and there.task.status is Status.COMPLETED
