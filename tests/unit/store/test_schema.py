"""Tables that others may read with tools of their own."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from acode.clock import ManualClock, iso
from acode.model.state import Status
from acode.store.sqlite import SqliteStore
from tests.conformance.kit import World, at_once


@pytest.mark.req("lld-17")
def test_dead_letters_are_rows_with_the_documented_columns_and_indexes(tmp_path: Path) -> None:
    path = tmp_path / "queue.db"
    store = SqliteStore.open(str(path), ManualClock(), grouped=False)
    task_id = at_once(World(store, ManualClock()).make(Status.FAILED, workstream_id="docs"))
    at_once(store.close())
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        (letter,) = connection.execute("SELECT * FROM dead_letter_queue").fetchall()
        indexes = connection.execute(
            "SELECT name FROM pragma_index_list('dead_letter_queue') ORDER BY name"
        )
        assert [row["name"] for row in indexes] == [
            "idx_dlq_document_id",
            "idx_dlq_last_failure",
            "idx_dlq_task_id",
        ]
    now = iso(ManualClock().now())
    details = {"code": "EXIT_CODE", "category": "permanent", "message": "exited with 1"}
    assert {**letter, "error_details": json.loads(letter["error_details"])} == {
        "id": 1,
        "task_id": task_id,
        "task_type": "shell",
        "document_id": "docs",
        "failure_reason": "EXIT_CODE: exited with 1",
        "attempt_count": 1,
        "first_failure": now,
        "last_failure": now,
        "error_details": details | {"hint": "read its log"},
        "checkpoint": "{}",
        "created_at": now,
    }
