"""Reads what a pool has written down and says whether it can be true."""

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from acode.clock import SystemClock
from acode.model.ending import Lost, Released
from acode.model.state import FINISHED, MOVES, Status
from acode.model.task import Record
from acode.store.sqlite import SqliteStore
from tests.cli.conftest import drive


def records(agent: Path, tasks: Iterable[str]) -> list[Record]:
    """Everything that the store knows of these tasks."""
    store = SqliteStore.open(str(agent / "queue.db"), SystemClock(), grouped=False)
    try:
        return [drive(store.record(task)) for task in tasks]
    finally:
        drive(store.close())


def check(record: Record) -> None:
    """The history of a task that has come to its end is legal and counts every attempt once."""
    task, attempts, history = record.task, record.attempts, record.history
    assert task.status in FINISHED, record
    assert history[0].was is None
    assert history[-1].became is task.status
    for before, after in pairwise(history):
        assert before.became is after.was, record
        assert after.became in MOVES[before.became], record
    began = sum(move.became is Status.RUNNING for move in history)
    assert [attempt.number for attempt in attempts] == list(range(1, began + 1)), record
    assert all(attempt.ending is not None and attempt.ended_at for attempt in attempts), record
    counted = [attempt for attempt in attempts if not isinstance(attempt.ending, Released)]
    assert task.attempt_count == len(counted), record
    assert sum(move.became is Status.COMPLETED for move in history) <= 1, record


def crashes(record: Record) -> int:
    """How often the worker of a task died."""
    return sum(isinstance(attempt.ending, Lost) for attempt in record.attempts)


class Tally:
    """Tasks that leave a line outside the project for each time that they run."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory = directory

    def command(self, then: str = "") -> str:
        return f'echo run >> "{self._directory}/$ACODE_TASK_ID"; {then}'

    def runs(self, task: str) -> int:
        """How often a task has run."""
        file = self._directory / task
        return len(file.read_text().splitlines()) if file.exists() else 0
