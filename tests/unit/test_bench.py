"""What the benchmarks measure is what the store would have made itself."""

from pathlib import Path

import pytest

from acode.clock import SystemClock
from acode.model.state import Status
from acode.store.base import TaskQuery
from acode.store.sqlite import SqliteStore
from bench.filled import Filling, Shelf
from tests.conformance.kit import at_once


@pytest.mark.parametrize("mixed", [False, True])
def test_a_database_that_was_filled_by_sql_is_sound(tmp_path: Path, mixed: bool) -> None:
    project = Shelf(str(tmp_path)).filled(Filling(8, mixed=mixed))
    store = SqliteStore.open(project.queue_db, SystemClock(), grouped=False)
    assert at_once(store.check()) == []
    assert at_once(store.counts()).by_status[Status.PENDING] == 8
    for task in at_once(store.find(TaskQuery(statuses=(Status.COMPLETED,)))):
        record = at_once(store.record(task.id))
        assert [one.became for one in record.history] == ["pending", "running", "completed"]
        assert [one.number for one in record.attempts] == [1]
    at_once(store.close())
