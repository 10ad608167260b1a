"""Random processes of a busy pool are killed, again and again."""

import os
import random
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from acode.clock import Deadline
from tests.pool.checker import Tally, check, crashes, records
from tests.pool.conftest import PoolProject, eventually, is_zygote

SECONDS = float(os.environ.get("ACODE_TEST_CHAOS_SECONDS", "15"))
TASKS = 100


class Chaos:
    """Picks a victim."""

    def __init__(self, project: PoolProject, seed: int) -> None:
        self._project = project
        self._random = random.Random(seed)

    def strike(self) -> None:
        """Kill one process; a dead daemon is started again."""
        if not self._project.has_daemon():
            self._project.abandoned = True
            self._project.run("worker", "start", "--count", "4")
            return
        kind = self._random.choices(["task", "worker", "zygote", "daemon"], [4, 4, 1, 2])[0]
        victims = list(self._victims(kind))
        if victims:
            self._kill(self._random.choice(victims))

    def _victims(self, kind: str) -> Iterator[psutil.Process]:
        for process in self._project.processes():
            try:
                if kind == self._kind(process):
                    yield process
            except psutil.Error:
                continue

    def _kind(self, process: psutil.Process) -> str:
        words = process.cmdline()
        if "acode.engine.daemon" in words:
            return "daemon"
        if "acode.worker.zygote" not in words:
            return "task"
        return "zygote" if is_zygote(process) else "worker"

    def _kill(self, process: psutil.Process) -> None:
        """And see it die: a daemon that is about to be gone still has its lock."""
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            return
        try:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            select.select([descriptor], [], [], 10)
        except ProcessLookupError:
            return
        finally:
            os.close(descriptor)


@pytest.mark.req("027a-NFR-007", "027-NFR-010")
def test_random_deaths_lose_nothing_and_leave_nothing(
    pool_project: PoolProject, tmp_path: Path
) -> None:
    pool_project.configure(
        workers={"process": {"restartDelayMs": 10, "maxRestartDelayMs": 50, "maxRestarts": 1000}},
        retry={"initialDelayMs": 10, "maxDelayMs": 50},
    )
    tally = Tally(tmp_path / "tally")
    pool_project.start(count=4)
    command = tally.command("sleep 0.1")
    tasks = pool_project.add_all([{"command": command, "retryLimit": 50}] * TASKS)
    seed = random.randrange(1 << 32)
    chaos = Chaos(pool_project, seed)
    deadline = Deadline(SECONDS)
    while deadline.rest(0.1):
        chaos.strike()
    if not pool_project.has_daemon():
        pool_project.run("worker", "start", "--count", "4")
    pool_project.abandoned = False
    pool_project.wait(*tasks)
    eventually(lambda: pool_project.pool()["idleCount"] == 4)
    eventually(lambda: not pool_project.zombies())
    pool_project.stop()
    assert not pool_project.processes(), seed
    assert not pool_project.leftovers(), seed
    for record in records(pool_project.agent, tasks):
        check(record)
        lost = crashes(record)
        # Only a worker that died three times with it makes a task fail.
        assert record.task.status == ("failed" if lost == 3 else "completed"), (seed, record)
        assert 1 <= tally.runs(record.task.id) <= len(record.attempts), (seed, record)
