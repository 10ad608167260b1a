"""Following some tasks, and only those, to their end."""

from collections import Counter
from collections.abc import Iterable, Iterator

from acode.cli.context import drive
from acode.model.state import FINISHED, Status
from acode.model.task import Move, Task
from acode.store.base import Store

PAGE = 1000


class Follower:
    """The tasks of one run as the store knows them; other tasks are not looked at."""

    def __init__(self, store: Store, ids: Iterable[str], *, known: bool) -> None:
        """Tasks that are `known` have a past that is not told again."""
        self._store = store
        ids = list(dict.fromkeys(ids))
        # Read before all others: what moves after it comes as a move.
        self._seq = drive(store.record(ids[0])).history[-1 if known else 0].seq
        self._told: dict[str, int] = {}
        self.tasks: dict[str, Task] = {}
        self._counts: Counter[Status] = Counter()
        for task_id in ids:
            if known:
                self._told[task_id] = drive(store.record(task_id)).history[-1].seq
            self._refresh(task_id)
        self._stuck: set[str] = set()

    def _refresh(self, task_id: str) -> None:
        before = self.tasks.get(task_id)
        if before is not None:
            self._counts[before.status] -= 1
        self.tasks[task_id] = task = drive(self._store.get(task_id))
        self._counts[task.status] += 1

    def moves(self) -> Iterator[Move]:
        """What has become of the tasks since the last look. Each task is up to date by then."""
        while page := drive(self._store.moves(self._seq, PAGE)):
            self._seq = page[-1].seq
            fresh: set[str] = set()
            for move in page:
                task_id = move.task_id
                if task_id not in self.tasks or move.seq <= self._told.get(task_id, 0):
                    continue
                if task_id not in fresh:
                    fresh.add(task_id)
                    self._refresh(task_id)
                yield move

    def count(self, *statuses: Status) -> int:
        """How many stand there."""
        return sum(self._counts[status] for status in statuses)

    def with_status(self, *statuses: Status) -> list[Task]:
        """Those that stand there."""
        return [task for task in self.tasks.values() if task.status in statuses]

    def is_over(self) -> bool:
        """Whether nothing will happen any more unless a user does something."""
        if self.count(Status.PENDING, Status.RUNNING):
            return False
        return all(self._is_stuck(task) for task in self.with_status(Status.BLOCKED))

    def is_finished(self) -> bool:
        """Whether every task has come to its end."""
        return self.count(*FINISHED) == len(self.tasks)

    def _is_stuck(self, task: Task) -> bool:
        """Whether it waits, directly or not, for something that failed or was cancelled."""
        if task.id in self._stuck:
            return True
        needed = (self._fresh(need) for need in task.spec.dependencies)
        stuck = any(self._never_comes(other) for other in needed)
        if stuck:
            self._stuck.add(task.id)
        return stuck

    def _fresh(self, task_id: str) -> Task:
        return self.tasks.get(task_id) or drive(self._store.get(task_id))

    def _never_comes(self, task: Task) -> bool:
        if task.status is Status.BLOCKED:
            return self._is_stuck(task)
        return task.status in (Status.FAILED, Status.CANCELLED)
