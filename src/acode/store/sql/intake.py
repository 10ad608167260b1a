"""Adding tasks, set-based: the rows of every waiting `add` go into the same few statements."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from acode.errors import AcodeError
from acode.model.state import Status
from acode.model.task import Submission, Task
from acode.store.admission import Present, Standing, admit
from acode.store.base import Added
from acode.store.sql.rows import sensible, text
from acode.store.sql.transaction import Transaction

_STANDINGS = {status: Standing(status) for status in Status}
# Reading the value of a member takes as long as making a row of it.
_NAMES = {status: status.value for status in Status}


class Addition(NamedTuple):
    """One call of `add`."""

    submissions: Sequence[Submission]
    actor: str
    queue_size: int


def add(tx: Transaction, additions: Sequence[Addition]) -> list[list[Added] | AcodeError]:
    """Insert the tasks of every addition; each is stored whole or refused whole."""
    intake = _Intake(tx, additions)
    results = [intake.take(addition) for addition in additions]
    tx.put("insert_tasks", intake.tasks)
    tx.put("insert_dependencies", intake.dependencies)
    return results


class _Intake:
    """Gathers the rows of many additions; each one sees those before it."""

    def __init__(self, tx: Transaction, additions: Sequence[Addition]) -> None:
        self.tx = tx
        self.tasks: list[Any] = []
        self.dependencies: list[Any] = []
        self._standings: dict[str, Standing] = {}
        self._seqs: dict[str, int] = {}
        self._keys: dict[str, str] = {}
        self._look_up([one for addition in additions for one in addition.submissions])

    def _look_up(self, submissions: Sequence[Submission]) -> None:
        named = {one.id for one in submissions}
        keys = set()
        for one in submissions:
            if one.spec.dependencies:
                named.update(one.spec.dependencies)
            if one.spec.key is not None:
                keys.add(one.spec.key)
        tx = self.tx
        tx.ahead("tasks_with_ids", named)
        tx.ahead("tasks_with_keys", keys)
        self._fresh = tx.fresh_seqs(len(submissions))
        self._waiting = tx.waiting()
        self._note_standings(tx.among("tasks_with_ids", named))
        rows = tx.among("tasks_with_keys", keys)
        self._keys = {row[0]: row[1] for row in rows}
        self._note_standings(row[1:] for row in rows)

    @sensible
    def _note_standings(self, rows: Iterable[Any]) -> None:
        for id_, seq, status in rows:
            self._standings[id_] = Standing(Status(status), archived=seq is None)
            if seq is not None:
                self._seqs[id_] = seq

    def take(self, addition: Addition) -> list[Added] | AcodeError:
        """Note one addition's rows, or say why it is refused."""
        submissions, actor, queue_size = addition
        present = Present(self._standings, self._keys, self._waiting)
        try:
            admitted = admit(submissions, present, queue_size=queue_size, now=self.tx.now)
        except AcodeError as refusal:
            return refusal
        for task in admitted.tasks:
            self._place(task)
        for task in admitted.tasks:
            self._note(task, actor)
        return admitted.added

    def _place(self, task: Task) -> None:
        self._seqs[task.id] = next(self._fresh)
        self._waiting += 1
        self._standings[task.id] = _STANDINGS[task.status]
        if task.spec.key is not None:
            self._keys[task.spec.key] = task.id

    def _note(self, task: Task, actor: str) -> None:
        spec, seq, status = task.spec, self._seqs[task.id], _NAMES[task.status]
        level = spec.priority.level
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
        self.tx.note_move(seq, None, status, actor, "added")
        for need in spec.dependencies:
            if need in self._seqs:
                self.dependencies.append((seq, self._seqs[need]))
