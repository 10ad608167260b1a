"""The same pool on Podman, through its Docker-compatible socket."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from acode.runner.container.life import destroy
from tests.docker.engines import TestEngine
from tests.docker.project import DockerProject
from tests.pool.conftest import eventually

pytestmark = pytest.mark.needs("podman")


@pytest.fixture
def project(tmp_path: Path, podman: TestEngine) -> Iterator[DockerProject]:
    made = DockerProject(tmp_path / "project", podman)
    yield made
    made.close()


@pytest.mark.req("027b-NFR-009", "027b-AC-012")
def test_a_pool_runs_on_podman(project: DockerProject) -> None:
    assert "Mode: docker" in project.start(count=2).out
    assert project.engine.wait().name == "podman"
    assert project.run_task("id -u; echo kept >file; cat file") == "65534\nkept"
    assert project.run_task(f"ls {project.agent}/queue.db 2>/dev/null || echo hidden") == "hidden"
    tasks = project.add_all([{"command": f"echo {n}"} for n in range(20)])
    assert project.wait(*tasks).code == 0
    host = project.engine.wait().api.get(f"/containers/{project.workers()[0]['containerId']}/json")
    assert host["HostConfig"]["Privileged"] is False
    assert host["HostConfig"]["PidsLimit"] == 100
    project.stop()
    assert not project.containers()


@pytest.mark.req("027b-FR-029")
def test_an_unhealthy_container_on_podman_is_replaced(project: DockerProject) -> None:
    """It looks after the health of containers only where systemd runs, so we look, too."""
    project.start(count=1)
    (container,) = project.containers()
    freeze(project)
    eventually(lambda: [c["Id"] for c in project.containers()] not in ([container["Id"]], []))
    assert "is unhealthy; it is replaced" in project.daemon_log()
    assert project.run_task("echo again") == "again"


def test_a_container_that_stands_still_does_not_keep_the_pool_from_stopping(
    project: DockerProject,
) -> None:
    project.configure(docker={"statsIntervalSeconds": 60, "stopTimeoutSeconds": 6})
    project.start(count=1)
    freeze(project)
    project.stop()
    assert not project.containers()


def freeze(project: DockerProject) -> None:
    """The supervisor of the only container hears nothing any more."""
    psutil.Process(project.container()["State"]["Pid"]).children()[0].suspend()


def test_tasks_on_podman_are_cancelled_killed_and_lost_as_anywhere(project: DockerProject) -> None:
    project.configure(docker={"resources": {"memoryMb": 64}}, retry={"initialDelayMs": 10})
    project.start(count=1)
    oom = project.add("dd if=/dev/zero of=/dev/null bs=200M count=1", "--retries", "0")
    project.wait(oom)
    assert project.show(oom)["attempts"][-1]["oom"] is True
    up = project.agent / "run" / "tmp" / project.workers()[0]["id"] / "up"
    task = project.add(f"touch {up}; sleep 1000")
    eventually(up.exists)
    project.run("task", "cancel", task)
    project.wait(task)
    assert project.status(task) == "cancelled"
    up.unlink()
    lost = project.add(f"[ -e {up} ] || {{ touch {up}; sleep 1000; }}; echo done")
    eventually(up.exists)
    (container,) = project.containers()
    destroy(project.engine.wait().api, container["Id"])
    assert project.wait(lost).code == 0
    assert [attempt["ending"] for attempt in project.show(lost)["attempts"]] == ["lost", "exited"]
