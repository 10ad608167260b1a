"""Killed at random moments: what was acknowledged is there, and nothing is there by half."""

import random
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from acode.clock import Deadline, SystemClock
from acode.store.base import TaskQuery
from acode.store.sqlite import SqliteStore
from tests.conformance.kit import PLENTY, assert_sound, at_once
from tests.crash.processes import CONTEXT, child
from tests.crash.workload import BATCH, Told, work

KILLS = 100
PATIENCE = 30.0
FEW = 10
"""Kills that one file has to bear."""


class Ledger:
    """Everything that was acknowledged."""

    def __init__(self) -> None:
        self.told: dict[str, Told] = {}

    def note(self, one: Told) -> None:
        before = self.told.get(one.task_id, one)
        self.told[one.task_id] = max(before, one, key=lambda told: told.attempt)
        if one.status is not None:
            self.told[one.task_id] = one

    def compare(self, store: SqliteStore) -> None:
        tasks = {task.id: task for task in at_once(store.find(TaskQuery(limit=PLENTY)))}
        for told in self.told.values():
            task = tasks[told.task_id]
            assert task.last_attempt >= told.attempt
            if told.status is not None:
                assert task.status is told.status
        batches = Counter(task.spec.title for task in tasks.values())
        assert set(batches.values()) <= {BATCH}


def killed(path: Path, seed: int, grouped: bool, ledger: Ledger) -> None:
    """Let a child work for a moment, then kill it, and note what it was told."""
    reader, writer = CONTEXT.Pipe(duplex=False)
    with child(work, str(path), writer, seed, grouped) as process:
        writer.close()
        assert reader.poll(PATIENCE), "it never began"
        moment = Deadline(random.Random(seed).uniform(0, 0.06))
        while (left := moment.left()) > 0 and reader.poll(left):
            note_next(reader, ledger)
        process.kill()
        while note_next(reader, ledger):
            pass
    reader.close()


def note_next(reader: Connection, ledger: Ledger) -> bool:
    """Whether there was something: a message that was cut off is none."""
    try:
        for one in reader.recv():
            ledger.note(one)
    except (EOFError, OSError):
        return False
    return True


@pytest.mark.parametrize("grouped", [True, False], ids=["grouped", "direct"])
def test_every_acknowledged_write_survives(tmp_path: Path, grouped: bool) -> None:
    acknowledged = 0
    for series in range(KILLS // FEW):
        path, ledger = tmp_path / f"{series}.db", Ledger()
        for kill in range(FEW):
            killed(path, series * FEW + kill, grouped, ledger)
            store = SqliteStore.open(str(path), SystemClock(), grouped=False)
            assert at_once(store.check()) == []
            ledger.compare(store)
            at_once(store.close())
        store = SqliteStore.open(str(path), SystemClock(), grouped=False)
        at_once(assert_sound(store))
        at_once(store.close())
        acknowledged += len(ledger.told)
    assert acknowledged > KILLS
