"""Which idle worker takes which task: its workstream's own, the least loaded, then in turn."""

from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

import msgspec

from acode.model.task import Task
from acode.policy.breaker import UNLIMITED

Circuit = TypeVar("Circuit", bound=tuple[str, str | None])
"""What a circuit guards: one kind of task in one workstream."""


class Affinity(dict[str, str]):
    """Which worker had which workstream last; of very many, only the latest are remembered."""

    most = 10_000

    def remember(self, workstream_id: str, worker_id: str) -> None:
        """The workstream was with this worker."""
        self.pop(workstream_id, None)
        self[workstream_id] = worker_id
        if len(self) > self.most:
            del self[next(iter(self))]


class IdleWorker(msgspec.Struct, frozen=True, gc=False):
    """A worker that waits for a task."""

    id: str
    load: int = 0
    """Attempts that it has run so far."""
    last_used: int = 0
    """When it was given its last task; any number that grows will do."""


def match(
    tasks: Sequence[Task],
    idle: Sequence[IdleWorker],
    affinity: Mapping[str, str],
    allowances: Mapping[Circuit, int],
) -> list[str | None]:
    """A worker's id for each task, `None` for one that stays in the queue.

    The most urgent task comes first. `affinity` names the worker that ran a workstream last,
    `allowances` how many tasks of a circuit may start now; one that is not named is free.
    """
    if len(tasks) == len(idle) == 1 and not allowances:
        return [idle[0].id]
    homes = [_home(task, affinity) for task in tasks]
    free = dict.fromkeys(_in_turn(idle, wanted=set(homes)))
    starting = _admitted(tasks, allowances)[: len(free)]
    given: list[str | None] = [None] * len(tasks)
    for place in starting:
        home = homes[place]
        if home in free:
            given[place] = home
            del free[home]
    strangers = iter(free)
    for place in starting:
        given[place] = given[place] or next(strangers)
    return given


def _home(task: Task, affinity: Mapping[str, str]) -> str | None:
    workstream = task.spec.workstream_id
    return None if workstream is None else affinity.get(workstream)


def _in_turn(idle: Sequence[IdleWorker], wanted: Collection[str | None]) -> list[str]:
    """The workers as a task without one of its own takes them, those that others want last."""
    turn = sorted(idle, key=lambda each: (each.id in wanted, each.load, each.last_used, each.id))
    return [worker.id for worker in turn]


def _admitted(tasks: Sequence[Task], allowances: Mapping[Circuit, int]) -> list[int]:
    """The places of the tasks that no circuit holds back."""
    left: dict[tuple[str, str | None], int] = dict(allowances.items())
    places = []
    for place, task in enumerate(tasks):
        circuit = (task.spec.kind, task.spec.workstream_id)
        allowed = left.get(circuit, UNLIMITED)
        if allowed > 0:
            left[circuit] = allowed - 1
            places.append(place)
    return places
