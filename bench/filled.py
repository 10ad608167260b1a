"""Databases that are full already, made by SQL in seconds and kept for the whole run."""

import os
import sqlite3
from typing import NamedTuple

from acode.clock import SystemClock
from acode.project import Project
from acode.store.sqlite.connection import connect, transaction

FILL = """
INSERT INTO tasks (seq, id, status, priority, kind, created_at, ready_at, started_at, completed_at,
                   attempt_count, last_attempt, worker_id, spec, result)
WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < :total - 1),
drawn (n, done, level, name, kind) AS (
    SELECT n, :mixed AND n % 2, iif(:mixed, n / 2 % 4, 1),
           json_array('high', 'medium', 'low', 'background') ->> iif(:mixed, n / 2 % 4, 1),
           iif(n < :total / 2, 'script', 'shell')
    FROM numbers
)
SELECT n + 1, printf('01%024d', n), iif(done, 'completed', 'pending'), level, kind,
       :now, :now, iif(done, :now, NULL), iif(done, :now, NULL), done, done, iif(done, 'w', NULL),
       json_object('command', 'true', 'type', kind, 'priority', name), iif(done, '{}', NULL)
FROM drawn;

INSERT INTO history (task, was, became, at, actor, reason)
SELECT seq, NULL, 'pending', created_at, 'bench', 'added' FROM tasks;

INSERT INTO history (task, was, became, at, actor, reason)
SELECT seq, 'pending', 'running', started_at, 'worker-w', 'attempt 1'
FROM tasks WHERE status = 'completed';

INSERT INTO history (task, was, became, at, actor, reason, number, worker_id, started_at, ended_at,
                     ending)
SELECT seq, 'running', 'completed', completed_at, 'daemon', 'completed', 1, 'w', started_at,
       completed_at, '{"type":"exited","code":0}'
FROM tasks WHERE status = 'completed';

UPDATE tallies SET n = (
    SELECT count(*) FROM tasks
    WHERE tasks.status = tallies.status AND tasks.priority = tallies.priority)
"""


class Filling(NamedTuple):
    """What a database holds: `pending` tasks of one level, the first half of them scripts.

    Mixed: of all four levels in turn, with a completed task after each.
    """

    pending: int
    mixed: bool = False


class Shelf:
    """Keeps the projects of one run."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._projects: dict[Filling, Project] = {}
        self._made = 0

    def fresh(self) -> Project:
        """A project without tasks."""
        self._made += 1
        project = Project(os.path.join(self.directory, str(self._made)))
        project.prepare()
        return project

    def filled(self, filling: Filling) -> Project:
        """A project whose queue holds this."""
        if filling not in self._projects:
            self._projects[filling] = self.fresh()
            _fill(self._projects[filling].queue_db, filling)
        return self._projects[filling]


def _fill(path: str, filling: Filling) -> None:
    connection = connect(path)
    connection.execute("PRAGMA synchronous = OFF")
    try:
        with transaction(connection):
            _insert(connection, filling)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()


def _insert(connection: sqlite3.Connection, filling: Filling) -> None:
    values = {
        "total": filling.pending * (2 if filling.mixed else 1),
        "mixed": filling.mixed,
        "now": SystemClock().now(),
    }
    for statement in FILL.split(";"):
        connection.execute(statement, values)
