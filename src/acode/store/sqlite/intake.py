"""Adding tasks, set-based: the rows of every waiting `add` go into the same few statements."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from acode.errors import AcodeError, InvalidTask, QueueFull, TaskNotFound
from acode.model.state import Status
from acode.model.task import Submission, Task
from acode.store import transitions
from acode.store.base import Added
from acode.store.sqlite.rows import text
from acode.store.sqlite.transaction import Transaction


class Addition(NamedTuple):
    """One call of `add`."""

    submissions: Sequence[Submission]
    actor: str
    queue_size: int


class _Standing(NamedTuple):
    """An existing task that a new one names, by key or as a dependency."""

    id: str
    seq: int | None
    """None for an archived one."""
    status: Status


def add(tx: Transaction, additions: Sequence[Addition]) -> list[list[Added] | AcodeError]:
    """Insert the tasks of every addition; each is stored whole or refused whole."""
    intake = _Intake(tx, additions)
    results = [intake.take(addition) for addition in additions]
    tx.put("insert_tasks", intake.tasks)
    tx.put("insert_history", intake.history)
    tx.put("insert_dependencies", intake.dependencies)
    return results


class _Intake:
    """Gathers the rows of many additions."""

    def __init__(self, tx: Transaction, additions: Sequence[Addition]) -> None:
        self.tx = tx
        self.tasks: list[Any] = []
        self.history: list[Any] = []
        self.dependencies: list[Any] = []
        self._next_seq: int = tx.value("next_seq")
        self._waiting = tx.waiting()
        specs = [s.spec for addition in additions for s in addition.submissions]
        self._by_key = self._keys({spec.key for spec in specs if spec.key is not None})
        self._known = self._standings({need for spec in specs for need in spec.dependencies})

    def _keys(self, keys: set[str]) -> dict[str, _Standing]:
        rows = self.tx.among("tasks_with_keys", keys)
        return {key: _Standing(id_, seq, Status(status)) for key, id_, seq, status in rows}

    def _standings(self, needs: set[str]) -> dict[str, _Standing]:
        rows = self.tx.among("tasks_with_ids", needs)
        return {id_: _Standing(id_, seq, Status(status)) for id_, seq, status in rows}

    def take(self, addition: Addition) -> list[Added] | AcodeError:
        """Note one addition's rows, or say why it is refused."""
        try:
            self._check(addition)
        except AcodeError as refusal:
            return refusal
        existed = [self._name(submission) for submission in addition.submissions]
        pairs = zip(addition.submissions, existed, strict=True)
        return [self._added(one, there, addition.actor) for one, there in pairs]

    def _check(self, addition: Addition) -> None:
        new_ids = {submission.id for submission in addition.submissions}
        new = [s for s in addition.submissions if s.spec.key not in self._by_key]
        if new and self._waiting + len(new) > addition.queue_size:
            raise QueueFull(
                f"{self._waiting} tasks wait and the queue holds {addition.queue_size}; "
                f"{len(new)} more do not fit"
            )
        for submission in new:
            for need in submission.spec.dependencies:
                self._check_need(submission.id, need, new_ids)

    def _check_need(self, task_id: str, need: str, new_ids: set[str]) -> None:
        if need == task_id:
            raise InvalidTask(f"task {need} cannot wait for itself")
        if need in new_ids:
            return
        if need not in self._known:
            raise TaskNotFound(f"no task has the id {need}, which another one waits for")
        standing = self._known[need]
        if standing.seq is None and standing.status is not Status.COMPLETED:
            raise InvalidTask(f"task {need}, which another one waits for, was cancelled long ago")

    def _name(self, submission: Submission) -> bool:
        """Give the task its place, or point its id to the task that has its key already."""
        key = submission.spec.key
        if key is not None and key in self._by_key:
            self._known[submission.id] = self._by_key[key]
            return True
        standing = _Standing(submission.id, self._next_seq, Status.PENDING)
        self._next_seq += 1
        self._known[submission.id] = standing
        if key is not None:
            self._by_key[key] = standing
        return False

    def _added(self, submission: Submission, existed: bool, actor: str) -> Added:
        standing = self._known[submission.id]
        if existed:
            return Added(standing.id, standing.status, existed=True)
        needs = [self._known[need] for need in dict.fromkeys(submission.spec.dependencies)]
        blocked = any(need.status is not Status.COMPLETED for need in needs)
        task = transitions.added(_with_needs(submission, needs), blocked=blocked, now=self.tx.now)
        self._known[task.id] = standing._replace(status=task.status)
        self._note(task, standing, actor)
        self.dependencies += [(standing.seq, n.seq) for n in needs if n.seq is not None]
        return Added(task.id, task.status)

    def _note(self, task: Task, standing: _Standing, actor: str) -> None:
        spec, level, seq = task.spec, task.spec.priority.level, standing.seq
        status = task.status.value
        self._waiting += 1
        self.tx.count(None, status, level)
        self.tasks.append(
            (
                seq,
                task.id,
                status,
                level,
                spec.kind,
                spec.workstream_id,
                spec.key,
                task.created_at,
                task.ready_at,
                text(spec),
            )
        )
        self.history.append((seq, None, status, self.tx.now, actor, "added"))


def _with_needs(submission: Submission, needs: list[_Standing]) -> Submission:
    """Dependencies by the ids that the store knows them by."""
    found = tuple(need.id for need in needs)
    if found == submission.spec.dependencies:
        return submission
    return Submission(submission.id, replace(submission.spec, dependencies=found))
