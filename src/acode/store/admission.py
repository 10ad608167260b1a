"""What becomes of the submissions of one `add`: pure, and the same for every store."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from acode.errors import InvalidTask, QueueFull, TaskNotFound
from acode.model.state import Status
from acode.model.task import Submission, Task
from acode.store import transitions
from acode.store.base import Added


class Standing(NamedTuple):
    """A task that is there already."""

    status: Status
    archived: bool = False


class Present(msgspec.Struct):
    """What the store holds of everything that the submissions name."""

    standings: Mapping[str, Standing]
    """By id: the submissions themselves, what they wait for, and who has their keys."""
    keys: Mapping[str, str]
    """Which task has the key."""
    waiting: int


class Admitted(NamedTuple):
    """The answer to each submission, and the tasks that are new."""

    added: list[Added]
    tasks: list[Task]


Needs = dict[str, tuple[str, ...]]


def admit(
    submissions: Sequence[Submission], present: Present, *, queue_size: int, now: int
) -> Admitted:
    """Take all submissions or refuse them all."""
    if are_plain(submissions, present.standings):
        _check_room(len(submissions), present, queue_size)
        return admit_plain(submissions, now)
    names = _names(submissions, present)
    new = {s.id: s for s in submissions if names[s.id] == s.id and s.id not in present.standings}
    _check_room(len(new), present, queue_size)
    needs = {one.id: _needs(one, names) for one in new.values()}
    _check_needs(needs, present.standings)
    tasks = {one.id: _task(one, needs, present.standings, now) for one in new.values()}
    answers = _answers([names[one.id] for one in submissions], tasks, present.standings)
    return Admitted(answers, list(tasks.values()))


def admit_plain(submissions: Sequence[Submission], now: int) -> Admitted:
    """Take submissions that concern nobody else and for which there is room."""
    tasks = [transitions.added(one, blocked=False, now=now) for one in submissions]
    return Admitted([Added(task.id, task.status) for task in tasks], tasks)


def are_plain(submissions: Sequence[Submission], standings: Mapping[str, Standing]) -> bool:
    """Whether all are new and concern nobody else, as nearly always."""
    for one in submissions:
        if one.spec.key is not None or one.spec.dependencies or one.id in standings:
            return False
    return len(submissions) == 1 or len({one.id for one in submissions}) == len(submissions)


def _check_room(new: int, present: Present, queue_size: int) -> None:
    if new and present.waiting + new > queue_size:
        raise QueueFull(
            f"{present.waiting} tasks wait and the queue holds {queue_size}; {new} more do not fit"
        )


def _names(submissions: Sequence[Submission], present: Present) -> dict[str, str]:
    """The id that each will go by: its own, or that of the task with its key."""
    names: dict[str, str] = {}
    keys: dict[str, str] = {}
    for one in submissions:
        key = one.spec.key
        if key is None or one.id in present.standings:
            names[one.id] = one.id
        else:
            names[one.id] = present.keys.get(key) or keys.setdefault(key, one.id)
    return names


def _needs(one: Submission, names: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([names.get(need, need) for need in one.spec.dependencies]))


def _check_needs(needs: Needs, standings: Mapping[str, Standing]) -> None:
    among_themselves = False
    for need in [need for needed in needs.values() for need in needed]:
        if need in needs:
            among_themselves = True
        elif need not in standings:
            raise TaskNotFound(f"no task has the id {need}, which another one waits for")
        elif standings[need] == Standing(Status.CANCELLED, archived=True):
            raise InvalidTask(f"task {need}, which another one waits for, was cancelled long ago")
    if among_themselves:
        _refuse_circles(needs)


def _refuse_circles(needs: Needs) -> None:
    from graphlib import CycleError, TopologicalSorter

    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        way = " → ".join(error.args[1])
        raise InvalidTask(f"a task cannot wait for itself: {way}") from None


def _task(one: Submission, needs: Needs, standings: Mapping[str, Standing], now: int) -> Task:
    needed = needs[one.id]
    if needed != one.spec.dependencies:
        one = Submission(one.id, replace(one.spec, dependencies=needed))
    blocked = any(
        need in needs or standings[need].status is not Status.COMPLETED for need in needed
    )
    return transitions.added(one, blocked=blocked, now=now)


def _answers(
    names: Sequence[str], tasks: Mapping[str, Task], standings: Mapping[str, Standing]
) -> list[Added]:
    answered: set[str] = set()
    answers = []
    for name in names:
        new = name in tasks
        status = tasks[name].status if new else standings[name].status
        answers.append(Added(name, status, existed=not new or name in answered))
        answered.add(name)
    return answers
