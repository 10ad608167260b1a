"""Adding tasks, set-based: the rows of every waiting `add` go into the same few statements."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice, repeat
from typing import Any, NamedTuple

from acode.errors import AcodeError
from acode.model.state import Status
from acode.model.task import Submission, Task
from acode.store.admission import Present, Standing, admit, admit_plain, are_plain
from acode.store.base import Added
from acode.store.sql.rows import Row, sensible, text
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
    results = intake.take_together(additions) or [intake.take(one) for one in additions]
    intake.write()
    return results


class _Intake:
    """Gathers the rows of many additions; each one sees those before it."""

    def __init__(self, tx: Transaction, additions: Sequence[Addition]) -> None:
        self._tx = tx
        self._now = tx.now
        self._tasks: list[Row] = []
        self._dependencies: list[Row] = []
        self._moves: list[Row] = []
        self._standings: dict[str, Standing] = {}
        self._seqs: dict[str, int] = {}
        self._present = Present(self._standings, {}, 0)
        self._submissions = [one for addition in additions for one in addition.submissions]
        self._look_up()

    def _look_up(self) -> None:
        named = {one.id for one in self._submissions}
        keys = set()
        for one in self._submissions:
            if one.spec.dependencies:
                named.update(one.spec.dependencies)
            if one.spec.key is not None:
                keys.add(one.spec.key)
        tx = self._tx
        tx.ahead("tasks_with_ids", named)
        tx.ahead("tasks_with_keys", keys)
        self._fresh = tx.fresh_seqs(len(self._submissions))
        self._present.waiting = tx.waiting()
        self._note_standings(tx.known(named))
        rows = tx.among("tasks_with_keys", keys)
        self._keys = {row[0]: row[1] for row in rows}
        self._present.keys = self._keys
        self._note_standings(row[1:] for row in rows)

    @sensible
    def _note_standings(self, rows: Iterable[Any]) -> None:
        for id_, seq, status in rows:
            self._standings[id_] = Standing(Status(status), archived=seq is None)
            if seq is not None:
                self._seqs[id_] = seq

    def take_together(self, additions: Sequence[Addition]) -> list[list[Added] | AcodeError]:
        """Note all rows at once, if none concerns anybody else and there is room; or none."""
        new = self._submissions
        room = min(addition.queue_size for addition in additions) - self._present.waiting
        if len(new) > room or not are_plain(new, self._standings):
            return []
        added, tasks = admit_plain(new, self._now)
        actors = [one.actor for one in additions for _ in one.submissions]
        self._note(tasks, self._fresh, actors)
        rest = iter(added)
        return [list(islice(rest, len(one.submissions))) for one in additions]

    def take(self, addition: Addition) -> list[Added] | AcodeError:
        """Note one addition's rows, or say why it is refused."""
        submissions, actor, queue_size = addition
        try:
            admitted = admit(submissions, self._present, queue_size=queue_size, now=self._now)
        except AcodeError as refusal:
            return refusal
        self._place(admitted.tasks)
        self._note(admitted.tasks, [self._seqs[task.id] for task in admitted.tasks], repeat(actor))
        return admitted.added

    def _place(self, tasks: Sequence[Task]) -> None:
        self._present.waiting += len(tasks)
        for task in tasks:
            self._seqs[task.id] = next(self._fresh)
            self._standings[task.id] = _STANDINGS[task.status]
            if task.spec.key is not None:
                self._keys[task.spec.key] = task.id

    def _note(self, tasks: Sequence[Task], seqs: Iterable[int], actors: Iterable[str]) -> None:
        # There may be more numbers than tasks.
        for task, seq, actor in zip(tasks, seqs, actors, strict=False):
            spec, status = task.spec, _NAMES[task.status]
            self._tasks.append(
                (
                    seq,
                    task.id,
                    status,
                    spec.priority.level,
                    spec.kind,
                    spec.workstream_id,
                    spec.key,
                    task.created_at,
                    task.ready_at,
                    text(spec),
                )
            )
            self._moves.append((seq, None, status, self._now, actor, "added"))
            if spec.dependencies:
                self._need(seq, spec.dependencies)

    def _need(self, seq: int, dependencies: Sequence[str]) -> None:
        for need in dependencies:
            if need in self._seqs:
                self._dependencies.append((seq, self._seqs[need]))

    def write(self) -> None:
        """Write what was noted."""
        tx = self._tx
        tx.put("insert_tasks", self._tasks)
        tx.put("insert_dependencies", self._dependencies)
        tx.note_moves(self._moves)
        for (status, level), n in Counter([row[2:4] for row in self._tasks]).items():
            tx.count(None, status, level, n)
