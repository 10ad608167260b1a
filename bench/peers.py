"""Other durable queues on SQLite, each driven as its own documentation does it.

Each adds, takes and completes `tasks` no-op tasks and commits at every step, unless it says so.
"""

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator

import litequeue
import persistqueue
from huey.storage import SqliteStorage

from acode.ids import new_id

PAYLOAD = {"command": "true"}

Peer = Callable[[str, int], None]


def huey(directory: str, tasks: int) -> None:
    """Huey's storage. It forgets a task when it is taken: two steps, and a crash loses it."""
    storage = SqliteStorage(filename=os.path.join(directory, "huey.db"), fsync=True)
    data = json.dumps(PAYLOAD).encode()
    for _ in range(tasks):
        storage.enqueue(data, priority=1)
    while storage.dequeue() is not None:
        pass
    storage.close()


def persist_queue(directory: str, tasks: int) -> None:
    """persist-queue's queue with acknowledgement, in WAL mode at SQLite's default, FULL."""
    queue = persistqueue.SQLiteAckQueue(os.path.join(directory, "persist"), auto_commit=True)
    for _ in range(tasks):
        queue.put(PAYLOAD)
    for _ in range(tasks):
        queue.ack(queue.get())
    queue.close()


def lite_queue(directory: str, tasks: int) -> None:
    """litequeue, made durable: as it comes, a power cut undoes the last commits."""
    _drive_litequeue(directory, tasks, "FULL")


def lite_queue_as_it_comes(directory: str, tasks: int) -> None:
    """litequeue with its own setting, which waits for no disk."""
    _drive_litequeue(directory, tasks, "NORMAL")


def _drive_litequeue(directory: str, tasks: int, synchronous: str) -> None:
    queue = litequeue.LiteQueue(os.path.join(directory, f"lite-{synchronous}.db"))
    queue.conn.execute(f"PRAGMA synchronous = {synchronous}")
    for _ in range(tasks):
        queue.put(json.dumps(PAYLOAD))
    for _ in range(tasks):
        queue.done(queue.pop().message_id)
    queue.close()


def raw(per_commit: int) -> Peer:
    """What one writes by hand: a table, an index, and a statement for each step."""

    def drive(directory: str, tasks: int) -> None:
        loop = RawLoop(os.path.join(directory, f"raw-{per_commit}.db"))
        for number, step in enumerate(loop.steps(tasks)):
            if number % per_commit == 0:
                loop.connection.execute("BEGIN IMMEDIATE")
            step()
            if number % per_commit == per_commit - 1:
                loop.connection.execute("COMMIT")
        if loop.connection.in_transaction:
            loop.connection.execute("COMMIT")
        loop.connection.close()

    return drive


class RawLoop:
    """A queue by hand, durable by WAL and FULL."""

    SCHEMA = """
        CREATE TABLE tasks (
            id TEXT PRIMARY KEY, status TEXT NOT NULL, priority INTEGER NOT NULL,
            payload TEXT NOT NULL, created_at INTEGER NOT NULL, started_at INTEGER,
            finished_at INTEGER);
        CREATE INDEX ready ON tasks (priority, id) WHERE status = 'pending';
    """
    INSERT = "INSERT INTO tasks (id, status, priority, payload, created_at) VALUES (?, ?, ?, ?, ?)"
    CLAIM = """
        UPDATE tasks SET status = 'running', started_at = ?
        WHERE id = (SELECT id FROM tasks WHERE status = 'pending' ORDER BY priority, id LIMIT 1)
        RETURNING id, payload
    """
    COMPLETE = "UPDATE tasks SET status = 'completed', finished_at = ? WHERE id = ?"

    def __init__(self, path: str) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = FULL")
        self.connection.executescript(self.SCHEMA)
        self._taken: list[tuple[str, str]] = []

    def steps(self, tasks: int) -> Iterator[Callable[[], None]]:
        """Every step, in order."""
        for step in (self._add, self._claim, self._complete):
            for _ in range(tasks):
                yield step

    def _add(self) -> None:
        now = _now()
        values = (new_id(now), "pending", 1, json.dumps(PAYLOAD), now)
        self.connection.execute(self.INSERT, values)

    def _claim(self) -> None:
        self._taken.append(self.connection.execute(self.CLAIM, (_now(),)).fetchone())

    def _complete(self) -> None:
        task_id, payload = self._taken.pop()
        json.loads(payload)
        self.connection.execute(self.COMPLETE, (_now(), task_id))


def _now() -> int:
    return time.time_ns() // 1_000_000


DURABLE: dict[str, Peer] = {
    "Huey": huey,
    "persist-queue": persist_queue,
    "litequeue": lite_queue,
    "raw, 1 per commit": raw(1),
}
"""They wait for the disk at every step."""

BATCHED = "raw, 50 per commit"
UNSAFE = "litequeue as it comes, not durable"

OTHERS: dict[str, Peer] = {BATCHED: raw(50), UNSAFE: lite_queue_as_it_comes}
