"""Checkpoints: the finished steps of a task and their values."""

from collections.abc import Collection
from typing import Any

from acode.store.sql.rows import step_value_from
from acode.store.sql.transaction import Transaction


def steps_of(tx: Transaction, task_ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """Step values by task and step."""
    found: dict[str, dict[str, Any]] = {}
    for task_id, step, value in tx.among("steps_of", task_ids):
        found.setdefault(task_id, {})[step] = step_value_from(value)
    return found
