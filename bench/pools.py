"""A real pool for the time of a measurement, and what its processes use."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from acode.cli.context import drive
from acode.clock import Deadline, SystemClock
from acode.engine.lock import holder
from acode.ids import new_id
from acode.model.state import Status
from acode.model.task import Submission, Task, TaskSpec
from acode.project import Project
from acode.sockets import Rope
from acode.store.base import TaskQuery
from acode.store.sqlite import SqliteStore
from acode.worker.known import known_workers
from bench.command import acode

QUEUE_SIZE = 1_000_000
PATIENCE_SECONDS = 120
LOOK_SECONDS = 0.01

clock = SystemClock()


class Pool:
    """A project whose pool runs, used as the command line does: the store, then the bell."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._rope = Rope(project.bell_socket)
        self._store = SqliteStore.open(project.queue_db, clock, grouped=False)

    def start(self, count: int) -> None:
        """Start it; returns when every worker is up."""
        acode(f"worker start --count {count}", self.project.root)

    def submit(self, commands: Iterable[str]) -> None:
        """Add tasks, durably, and ring."""
        tasks = [Submission(new_id(clock.now()), TaskSpec(command=line)) for line in commands]
        ring = self._rope.pull
        drive(self._store.add(tasks, actor="bench", queue_size=QUEUE_SIZE, ring=ring))

    def count(self, status: Status) -> int:
        """How many tasks there are of it."""
        return drive(self._store.counts()).by_status[status]

    def tasks(self, status: Status) -> list[Task]:
        """Those that have this status."""
        return drive(self._store.find(TaskQuery(statuses=(status,))))

    def wait_for(self, status: Status, tasks: int) -> None:
        """Until so many tasks have this status."""
        deadline = Deadline(PATIENCE_SECONDS)
        while self.count(status) != tasks:
            if not deadline.rest(LOOK_SECONDS):
                raise RuntimeError(f"{tasks} tasks were never {status}")

    @property
    def daemon_pid(self) -> int:
        """The daemon's process."""
        daemon = holder(self.project.daemon_lock)
        if daemon is None:
            raise RuntimeError("no daemon runs")
        return daemon.pid

    def worker_pids(self) -> list[int]:
        """The workers' processes."""
        return [process.pid for _, process in known_workers(self.project.run_dir)]

    def close(self) -> None:
        """End it with whatever it runs."""
        acode("worker stop --force", self.project.root)
        drive(self._store.close())
        self._rope.close()


@contextmanager
def pool(project: Project, count: int, **workers: Any) -> Iterator[Pool]:
    """A running pool with these settings of its workers; ended in any case."""
    # Commands tell by a file of the project that they run, and must be allowed to.
    allowed = {"writePaths": [project.root]}
    settings = {"workers": {"max": max(count, 32), **workers}, "sandbox": allowed}
    with open(project.config_file, "w", encoding="utf-8") as file:
        json.dump(settings, file)
    running = Pool(project)
    try:
        running.start(count)
        yield running
    finally:
        running.close()


def cpu_seconds(pid: int) -> float:
    """What all threads of a process have used so far, as the scheduler counts it."""
    return sum(_thread_seconds(pid, thread) for thread in os.listdir(f"/proc/{pid}/task"))


def _thread_seconds(pid: int, thread: str) -> float:
    with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[0]) / 1e9


def memory_bytes(pid: int) -> int:
    """A process's fair share of the memory it uses (PSS)."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        found = next(line for line in file if line.startswith("Pss:"))
    return int(found.split()[1]) * 1024
