"""A pool whose tasks run in containers, from the command line down to a real engine."""

import os
import re
import signal
from pathlib import Path

import psutil
import pytest

from acode.runner.container.life import destroy
from tests.docker.images import GIT
from tests.docker.project import DockerProject
from tests.pool.conftest import eventually
from tests.web.conftest import Site

pytestmark = pytest.mark.needs("docker")

HOLD_30_MB = "head -c 30000000 /dev/zero | tail -c 30000000 | (sleep 1000; cat) >/dev/null"


def test_a_task_runs_in_the_container_of_its_worker(project: DockerProject) -> None:
    done = project.start(count=1)
    assert "Mode: docker" in done.out
    (worker,) = project.workers()
    (container,) = project.containers()
    assert worker["containerId"] == container["Id"]
    assert container["Names"] == [f"/acode-worker-{worker['id']}"]
    said = project.run_task("hostname; pwd; id -u; echo $ACODE_WORKER_ID")
    host, place, uid, worker_id = said.split("\n")
    assert container["Id"].startswith(host)
    assert place.startswith(str(project.agent / "worktrees"))
    assert uid != "0"
    assert worker_id == worker["id"]
    project.stop()
    assert not project.containers()


@pytest.mark.req("027-FR-026", "027-FR-027", "027-FR-030")
def test_a_task_may_ask_for_the_other_mode(project: DockerProject) -> None:
    project.start(count=1)
    inside = project.run_task("hostname")
    outside = project.run_task("hostname", "--mode", "process")
    assert inside != outside
    assert outside == os.uname().nodename


def test_a_daemon_that_is_killed_leaves_the_attempt_running(project: DockerProject) -> None:
    project.start(count=1)
    go = project.agent / "run" / "tmp" / project.workers()[0]["id"] / "go"
    task = project.add(f"touch {go}.started; while [ ! -e {go} ]; do sleep 0.05; done; echo done")
    eventually(Path(f"{go}.started").exists)
    (before,) = project.containers()
    project.kill_hard()
    project.start(count=1)
    assert project.show(task)["status"] == "running"
    go.touch()
    assert project.wait(task).code == 0
    assert project.output(task) == "done"
    assert project.show(task)["attemptCount"] == 1
    assert [c["Id"] for c in project.containers()] == [before["Id"]]


def kind_of(project: DockerProject, task: str) -> str:
    return str(project.show(task)["error"]["code"])


def hold(project: DockerProject, *flags: str) -> tuple[str, Path]:
    """A task that has begun in its container and goes on until its file is there."""
    home = project.agent / "run" / "tmp" / project.workers()[0]["id"]
    go = home / "go"
    task = project.add(
        f"touch {go}.started; while [ ! -e {go} ]; do sleep 0.05; done; echo done", *flags
    )
    eventually(Path(f"{go}.started").exists)
    return task, go


def test_a_cancelled_task_ends_inside(project: DockerProject) -> None:
    project.start(count=1)
    task, _ = hold(project)
    assert project.run("task", "cancel", task).code == 0
    assert project.wait(task).code == 1
    assert project.status(task) == "cancelled"
    assert project.run_task("ps | grep -c '[t]ouch' || true") == "0"


def test_a_stubborn_task_is_killed_when_its_time_is_up(project: DockerProject) -> None:
    project.configure(workers={"process": {"killTimeoutSeconds": 0.5}})
    project.start(count=1)
    task = project.add(
        "trap '' TERM; setsid sleep 1000 & sleep 1000", "--timeout", "1", "--retries", "0"
    )
    project.wait(task)
    assert project.show(task)["attempts"][-1]["ending"] == "timedOut"
    assert project.run_task("ps | grep -c '[s]leep 1000' || true") == "0"


@pytest.mark.req("027b-FR-040", "027b-FR-041", "027b-FR-049", "027b-AC-005")
def test_a_task_that_runs_out_of_memory_is_told_so(project: DockerProject) -> None:
    project.configure(docker={"resources": {"memoryMb": 64}})
    project.start(count=1)
    task = project.add("dd if=/dev/zero of=/dev/null bs=200M count=1", "--retries", "0")
    project.wait(task)
    shown = project.show(task)
    assert shown["error"]["code"] == "RESOURCE_EXHAUSTED"
    assert shown["attempts"][-1]["oom"] is True
    assert "WORKER-005" in project.run("task", "logs", task).err
    eventually(lambda: "memoryMb" in project.daemon_log())
    assert project.run_task("echo again") == "again"


@pytest.mark.req("027b-FR-047", "027b-FR-048")
def test_a_task_may_ask_for_less_than_the_pool_grants_and_never_gets_more(
    project: DockerProject,
) -> None:
    project.configure(docker={"resources": {"memoryMb": 256, "cpus": 0.5}})
    project.start(count=1)
    read = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null"
    megabytes = [
        int(project.run_task(f"{read} || true", *flags).split()[0]) // 2**20
        for flags in ((), ("--memory-mb", "64"), ("--memory-mb", "4000"), ())
    ]
    assert megabytes == [256, 64, 256, 256]


@pytest.mark.req("027b-FR-007")
def test_a_task_may_ask_for_another_image(project: DockerProject) -> None:
    project.start(count=1)
    assert project.run_task("command -v git || echo none") == "none"
    assert project.run_task("command -v git", "--meta", f"image={GIT}") == "/bin/git"
    assert project.container()["Config"]["Image"] == GIT


def test_an_image_that_cannot_be_had_fails_its_task_with_words(project: DockerProject) -> None:
    project.start(count=1)
    task = project.add("true", "--meta", "image=localhost/acode-test/nosuch:1")
    project.wait(task)
    error = project.show(task)["error"]
    assert "the image localhost/acode-test/nosuch:1 is not there" in error["message"]
    assert "pull" in error["hint"]
    assert project.run_task("echo again") == "again"


def test_an_image_without_the_program_fails_its_task_with_words(project: DockerProject) -> None:
    project.start(count=1)
    task = project.cli.add("--", "nosuchprogram", "argument")
    project.wait(task)
    assert kind_of(project, task) == "TOOL_NOT_FOUND"


def test_a_container_that_is_killed_is_replaced_and_its_task_runs_again(
    project: DockerProject,
) -> None:
    project.configure(retry={"initialDelayMs": 10})
    project.start(count=1)
    task, go = hold(project)
    (container,) = project.containers()
    destroy(project.engine.wait().api, container["Id"])
    eventually(lambda: project.show(task)["attemptCount"] == 2)
    go.touch()
    assert project.wait(task).code == 0
    first, second = project.show(task)["attempts"]
    assert (first["ending"], second["ending"]) == ("lost", "exited")
    assert "container" in str(project.show(task)["history"])
    (after,) = project.containers()
    assert after["Id"] != container["Id"]


def test_an_idle_container_that_is_gone_is_replaced_before_it_is_needed(
    project: DockerProject,
) -> None:
    project.start(count=1)
    (container,) = project.containers()
    destroy(project.engine.wait().api, container["Id"])
    eventually(lambda: [c["State"] for c in project.containers()] == ["running"])
    assert project.run_task("echo again") == "again"


@pytest.mark.req("027b-FR-028", "027b-FR-029", "027b-FR-030", "027b-AC-007")
def test_an_unhealthy_container_is_replaced(project: DockerProject) -> None:
    project.configure(workers={"healthCheckIntervalMs": 300})
    project.start(count=1)
    (container,) = project.containers()
    inspected = project.container()
    policy = inspected["HostConfig"]["RestartPolicy"]
    assert policy["Name"] == "on-failure"
    assert inspected["Config"]["Healthcheck"]["Interval"] == 300_000_000
    eventually(lambda: project.container()["State"]["Health"]["Status"] == "healthy")
    supervisor = psutil.Process(inspected["State"]["Pid"]).children()[0]
    supervisor.send_signal(signal.SIGSTOP)
    eventually(lambda: [c["Id"] for c in project.containers()] not in ([container["Id"]], []))
    assert project.run_task("echo again") == "again"
    assert "is unhealthy; it is replaced" in project.daemon_log()


@pytest.mark.req("027b-FR-030")
def test_a_container_that_fails_is_started_again_by_its_engine(project: DockerProject) -> None:
    project.start(count=1)
    before = project.container()
    psutil.Process(before["State"]["Pid"]).children()[0].kill()
    eventually(lambda: project.container()["RestartCount"] == 1)
    assert project.run_task("echo again") == "again"
    assert project.container()["Id"] == before["Id"]
    task = project.add(HOLD_30_MB)
    eventually(lambda: project.workers()[0]["resources"]["memoryBytes"] > 25_000_000)
    project.run("task", "cancel", "--force", task)
    project.wait(task)


@pytest.mark.req("027b-FR-024", "027b-FR-025")
def test_containers_may_be_kept_for_a_look(project: DockerProject) -> None:
    project.start("--keep-containers", count=1)
    project.run_task("echo hello >/tmp/left")
    project.stop()
    (container,) = project.containers()
    assert container["State"] == "exited"
    project.start(count=1)
    project.stop()
    assert [c["Id"] for c in project.containers()] == [container["Id"]]
    destroy(project.engine.wait().api, container["Id"])


@pytest.mark.req("027b-NFR-006")
def test_a_hundred_tasks_over_four_containers_leave_nothing(project: DockerProject) -> None:
    project.start(count=4)
    tasks = project.add_all([{"command": f"echo {n}"} for n in range(100)])
    assert project.wait(*tasks).code == 0
    assert {project.output(task) for task in tasks[::10]} == {str(n) for n in range(0, 100, 10)}
    assert len(project.containers()) == 4
    project.stop()
    assert not project.containers()


@pytest.mark.req("027b-FR-042", "027b-FR-043", "027b-FR-045", "027b-FR-050", "027b-AC-011")
def test_what_containers_use_is_told_and_warned_of(project: DockerProject) -> None:
    project.configure(docker={"resources": {"memoryMb": 32}})
    project.start(count=1)
    task = project.add(HOLD_30_MB)
    eventually(lambda: project.workers()[0]["resources"]["memoryBytes"] > 25_000_000)
    eventually(lambda: "is close to its limit" in project.daemon_log())
    metrics = Site(project).call("GET", "/metrics").body.decode()
    (memory,) = re.findall(r"^worker_memory_mb\{[^}]*\} ([0-9.]+)", metrics, re.MULTILINE)
    assert float(memory) > 25
    project.run("task", "cancel", "--force", task)
    project.wait(task)
