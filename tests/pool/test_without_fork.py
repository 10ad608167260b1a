"""A pool whose system refuses to fork: its workers are programs of their own."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.cli.conftest import ACODE
from tests.pool.checker import check, records
from tests.pool.conftest import PoolProject, eventually, is_gone
from tests.pool.without_fork import is_known

pytestmark = pytest.mark.skipif(not is_known(), reason="no filter for this machine")


@pytest.fixture
def project(pool_project: PoolProject) -> PoolProject:
    """A pool of two that nobody in it may fork."""
    pool_project.configure(workers={"process": {"restartDelayMs": 10}})
    words = (ACODE, "worker", "start", "--count", "2")
    subprocess.run(
        [sys.executable, "-P", Path(__file__).with_name("without_fork.py"), *words],
        cwd=pool_project.root,
        env=pool_project.env,
        check=True,
        capture_output=True,
    )
    return pool_project


def test_workers_are_programs_where_fork_is_refused(project: PoolProject) -> None:
    """They are children of the zygote like any other, and as much on their own."""
    workers = [psutil.Process(pid) for pid in project.worker_pids()]
    assert len(workers) == 2
    for worker in workers:
        assert "acode.worker.birth" in worker.cmdline()
        assert worker.parent() == project.zygote
        assert os.getsid(worker.pid) == worker.pid
    task = project.add("echo done; cat; pwd >&2")
    assert project.wait(task).code == 0
    assert project.output(task) == "done"


def test_a_program_that_is_a_worker_is_missed_replaced_and_ended_like_any_other(
    project: PoolProject,
) -> None:
    task = project.hold("it")
    busy = next(each for each in project.workers() if each["currentTaskId"] == task)
    worker = psutil.Process(busy["pid"])
    command = worker.children()[0]
    worker.kill()
    project.let_go("it")
    assert project.wait(task).code == 0
    eventually(lambda: is_gone(command))
    eventually(lambda: project.pool()["idleCount"] == 2)
    assert project.show(task)["attemptCount"] == 2
    for record in records(project.agent, [task]):
        check(record)
    everybody = project.processes()
    project.stop()
    assert all(is_gone(process) for process in everybody)


def test_a_program_that_is_a_worker_outlives_its_daemon(project: PoolProject) -> None:
    task = project.hold("it")
    pids = project.worker_pids()
    project.kill_hard()
    project.start(count=2)
    assert project.worker_pids() == pids
    project.let_go("it")
    assert project.wait(task).code == 0
    assert project.show(task)["attemptCount"] == 1
