"""Do listing and counting cost the same however many tasks there are?"""

from collections.abc import Callable, Coroutine, Iterator
from statistics import median
from typing import Any

from acode.cli.context import drive
from acode.clock import SystemClock
from acode.model.priority import Priority
from acode.model.state import Status
from acode.project import Project
from acode.store.base import Sort, TaskQuery
from acode.store.sqlite import SqliteStore
from bench.command import acode
from bench.filled import Filling, Shelf
from bench.report import Line, Pair, at_most
from bench.rounds import Rounds, Scale, seconds

SMALL = 1_000
GOAL = 3.0
READS = 20
"""In each turn."""

Read = Callable[[SqliteStore], Coroutine[Any, Any, object]]


def _finding(query: TaskQuery) -> Read:
    return lambda store: store.find(query)


READS_OF_STORE: dict[str, Read] = {
    "find, newest first": _finding(TaskQuery(sort=Sort(reverse=True))),
    "find, one status": _finding(TaskQuery(statuses=(Status.PENDING,))),
    "find, one priority": _finding(TaskQuery(priority=Priority.LOW)),
    "find, by priority": _finding(TaskQuery(sort=Sort("priority"))),
    "find, by status": _finding(TaskQuery(sort=Sort("status"))),
    "counts": lambda store: store.counts(),
}

COMMANDS = ("task list", "task list --sort priority", "queue status")


def measure(shelf: Shelf, scale: Scale) -> Iterator[Line]:
    """Compare the largest database with the smallest, inside and from the command line."""
    sizes = (SMALL, scale.rows)
    projects = {f"{size:,}": shelf.filled(Filling(size // 2, mixed=True)) for size in sizes}
    for case, read in READS_OF_STORE.items():
        turns = {size: _reading(project, read) for size, project in projects.items()}
        yield _line(case, Rounds(turns, scale.rounds), *projects)
    for words in COMMANDS:
        turns = {size: _running(project, words) for size, project in projects.items()}
        yield _line(f"acode {words}", Rounds(turns, scale.rounds * 3), *projects)


def _reading(project: Project, read: Read) -> Callable[[], float]:
    store = SqliteStore.open(project.queue_db, SystemClock(), grouped=False)
    return lambda: median(seconds(lambda: drive(read(store))) for _ in range(READS))


def _running(project: Project, words: str) -> Callable[[], float]:
    return lambda: seconds(lambda: acode(words, project.root))


def _line(case: str, costs: Rounds, small: str, large: str) -> Line:
    return at_most(f"{case}, {large} rows", Pair(costs, large, small), GOAL)
