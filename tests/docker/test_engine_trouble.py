"""Engines that restart, hang, or have no room left; pools that are killed whole."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.docker.engines import TestEngine
from tests.docker.project import DockerProject
from tests.pool.conftest import eventually

pytestmark = pytest.mark.needs("docker")


@pytest.fixture
def project(tmp_path: Path, own_docker: TestEngine) -> Iterator[DockerProject]:
    made = DockerProject(tmp_path / "project", own_docker)
    yield made
    made.close()


def test_an_engine_that_restarts_costs_an_attempt_and_nothing_else(project: DockerProject) -> None:
    project.configure(retry={"initialDelayMs": 10})
    project.start(count=1)
    up = project.agent / "run" / "tmp" / project.workers()[0]["id"] / "up"
    task = project.add(f"[ -e {up} ] || {{ touch {up}; sleep 1000; }}; echo done")
    eventually(up.exists)
    project.engine.restart()
    assert project.wait(task).code == 0
    assert [attempt["ending"] for attempt in project.show(task)["attempts"]] == ["lost", "exited"]
    assert project.run_task("echo again") == "again"


def test_an_engine_that_hangs_does_not_stop_what_runs(project: DockerProject) -> None:
    project.start(count=1)
    os.kill(project.engine.pid, signal.SIGSTOP)
    try:
        assert project.run_task("echo inside; hostname").startswith("inside\n")
        assert project.pool()["isRunning"] is True
    finally:
        os.kill(project.engine.pid, signal.SIGCONT)


@pytest.mark.req("027b-FR-002", "027b-FR-003")
def test_a_hanging_engine_is_found_out_before_anything_is_started(project: DockerProject) -> None:
    os.kill(project.engine.pid, signal.SIGSTOP)
    try:
        done = project.start(count=1)
        assert "WORKER-006" in done.err
        assert "does not answer" in done.err
        assert project.pool()["mode"] == "process"
        assert project.run_task("hostname") == os.uname().nodename
        project.stop()
    finally:
        os.kill(project.engine.pid, signal.SIGCONT)


@pytest.mark.req("027b-FR-017", "027b-FR-018")
def test_a_container_that_does_not_start_in_time_is_told(project: DockerProject) -> None:
    project.configure(docker={"startTimeoutSeconds": 0.001, "fallbackToLocal": False})
    done = project.run("worker", "start", "--count", "1")
    assert done.code == 1
    assert "WORKER-003" in done.err
    assert "no container" in project.daemon_log()
    assert not project.containers()


def test_an_engine_without_room_is_told_and_nothing_is_left(
    project: DockerProject, tmp_path: Path
) -> None:
    """Its data lies on a disk that is full: a container cannot be made there."""
    data = project.engine.directory / "data" / "containers"
    inside = ["nsenter", f"--mount=/proc/{project.engine.guardian}/ns/mnt"]
    subprocess.run(
        [*inside, "mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=2", "none", data], check=True
    )
    try:
        project.configure(docker={"fallbackToLocal": False})
        done = project.run("worker", "start", "--count", "1")
        assert done.code == 1
        assert "no space left on device" in done.err
    finally:
        subprocess.run([*inside, "umount", data], check=True)
    eventually(lambda: not project.has_daemon())
    project.start(count=1)
    assert project.run_task("echo again") == "again"


@pytest.mark.req("027b-NFR-006", "027b-AC-009")
def test_nothing_is_left_when_everything_was_killed(project: DockerProject) -> None:
    """On an engine alone: the pool of any other project would tidy up, too."""
    project.start(count=2)
    up = project.agent / "run" / "tmp" / project.workers()[0]["id"] / "up"
    project.add(f"touch {up}; sleep 1000")
    project.add(f"touch {up}; sleep 1000")
    eventually(up.exists)
    pids = [*project.worker_pids(), project.daemon.pid]
    project.abandoned = True
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    psutil.wait_procs(project.processes(), timeout=30)
    assert len(project.containers()) == 2
    project.configure(workers={"mode": "process"})  # whatever the next pool is like
    project.start(count=1)
    eventually(lambda: not project.containers())
