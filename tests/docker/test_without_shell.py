"""An image that holds one static program and no shell: the engine starts commands there."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from acode.runner.container.keeper import program
from acode.runner.container.life import destroy
from tests.docker.engines import TestEngine
from tests.docker.images import APP
from tests.docker.project import DockerProject
from tests.pool.conftest import eventually

SOURCES = Path(program.__code__.co_filename).parent


@pytest.fixture(
    params=[
        pytest.param("docker", marks=pytest.mark.needs("docker")),
        pytest.param("podman", marks=pytest.mark.needs("podman")),
    ]
)
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[DockerProject]:
    engine: TestEngine = request.getfixturevalue(request.param)
    made = DockerProject(tmp_path / "project", engine)
    made.configure(docker={"image": APP}, retry={"initialDelayMs": 10})
    yield made
    made.close()


def add(project: DockerProject, *words: str, flags: tuple[str, ...] = ()) -> str:
    return project.cli.add(*flags, "--", "app", *words)


def marker(project: DockerProject) -> Path:
    """A file that is seen from both sides."""
    return project.agent / "run" / "tmp" / project.workers()[0]["id"] / "up"


def running(project: DockerProject) -> int:
    """How many of our programs run that name this project."""
    root = str(project.root)
    return sum(
        "app" in words[:1] and any(root in word for word in words)
        for words in map(_words, psutil.pids())
    )


def _words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


def test_both_streams_and_the_exit_code_are_those_of_the_command(project: DockerProject) -> None:
    project.start(count=1)
    task = add(
        project, "out=one", "err=two", "where=", "user=", "env=OWN", "exit=3",
        flags=("--env", "OWN=three", "--retries", "0"),
    )  # fmt: skip
    project.wait(task)
    shown = project.show(task)
    assert (shown["exitCode"], shown["error"]["code"]) == (3, "EXIT_CODE")
    one, place, user, own = project.output(task).split("\n")
    assert (one, user, own) == ("one", "65534", "three")
    assert place.startswith(str(project.agent / "worktrees"))
    lines = project.run("task", "logs", task, "--format", "json").out.splitlines()
    told = [(line["stream"], line["message"]) for line in map(json.loads, lines)]
    assert ("stderr", "two") in told
    assert project.container()["Config"]["Healthcheck"]["Test"][0] == "CMD"


def test_output_comes_while_the_command_runs(project: DockerProject) -> None:
    project.start(count=1)
    go = marker(project)
    task = add(project, "out=first", f"await={go}", "out=second")
    eventually(lambda: project.output(task) == "first")
    go.touch()
    assert project.wait(task).code == 0
    assert project.output(task) == "first\nsecond"


def test_a_program_that_is_not_there_is_named(project: DockerProject) -> None:
    project.start(count=1)
    for words in (("nosuch", "x"), ("/bin/nosuch", "x"), ("echo a shell is missing",)):
        task = project.cli.add("--", *words)
        project.wait(task)
        error = project.show(task)["error"]
        assert error["code"] == "TOOL_NOT_FOUND", error
        assert "is not in the container's image" in error["message"]
    assert project.wait(add(project, "out=fine")).code == 0


@pytest.mark.parametrize("how", ["cancel", "force", "timeout"])
def test_what_does_not_want_to_end_is_ended_with_everything_below(
    project: DockerProject, how: str
) -> None:
    project.configure(docker={"image": APP}, workers={"process": {"killTimeoutSeconds": 0.3}})
    project.start(count=1)
    container = project.workers()[0]["containerId"]
    up = marker(project)
    flags = ("--timeout", "2", "--retries", "0") if how == "timeout" else ()
    task = add(project, "deaf", "stray", f"touch={up}", "sleep", flags=flags)
    eventually(up.exists)
    assert running(project) == 2
    if how != "timeout":
        project.run("task", "cancel", task, *(["--force"] if how == "force" else []))
    project.wait(task)
    ending = {"timeout": "timedOut"}.get(how, "cancelled")
    assert project.show(task)["attempts"][-1]["ending"] == ending
    assert running(project) == 0
    assert project.wait(add(project, "out=again")).code == 0
    assert project.workers()[0]["containerId"] == container, "a kill that works costs nothing"


def test_what_a_command_leaves_behind_is_ended(project: DockerProject) -> None:
    project.start(count=1)
    task = add(project, "stray", f"out={project.root}")
    assert project.wait(task).code == 0
    assert running(project) == 0
    assert "ended what the command left running" in project.run("task", "logs", task).err


def test_a_keeper_that_does_not_answer_costs_the_container(project: DockerProject) -> None:
    """Where the kill fails: everything dies with the container, which is replaced."""
    project.start(count=1)
    container = project.workers()[0]["containerId"]
    up = marker(project)
    task = add(project, "deaf", f"touch={up}", "sleep")
    eventually(up.exists)
    keeper = psutil.Process(project.container()["State"]["Pid"]).children()[0]
    keeper.send_signal(signal.SIGSTOP)
    project.run("task", "cancel", "--force", task)
    project.wait(task)
    assert project.status(task) == "cancelled"
    eventually(lambda: running(project) == 0)
    assert project.wait(add(project, "out=again")).code == 0
    assert project.workers()[0]["containerId"] != container


def test_a_killed_worker_takes_its_command_along(project: DockerProject) -> None:
    project.start(count=1)
    up = marker(project)
    task = add(project, "deaf", f"touch={up}", f"await={project.root}/never")
    eventually(up.exists)
    (pid,) = project.worker_pids()
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: project.show(task)["attemptCount"] == 2)
    assert project.show(task)["attempts"][0]["ending"] == "lost"
    eventually(lambda: running(project) == 1)
    project.run("task", "cancel", "--force", task)
    project.wait(task)
    assert running(project) == 0


def test_a_container_that_is_gone_is_replaced_and_the_task_runs_again(
    project: DockerProject,
) -> None:
    project.start(count=1)
    up = marker(project)
    task = add(project, f"touch={up}", f"await={project.root}/go", "out=done")
    eventually(up.exists)
    (container,) = project.containers()
    destroy(project.engine.wait().api, container["Id"])
    eventually(lambda: project.show(task)["attemptCount"] == 2)
    (project.root / "go").touch()
    assert project.wait(task).code == 0
    endings = [attempt["ending"] for attempt in project.show(task)["attempts"]]
    assert endings == ["lost", "exited"]


def test_an_attempt_outlives_its_daemon(project: DockerProject) -> None:
    project.start(count=1)
    up = marker(project)
    task = add(project, f"touch={up}", f"await={project.root}/go", "out=done")
    eventually(up.exists)
    project.kill_hard()
    project.start(count=1)
    (project.root / "go").touch()
    assert project.wait(task).code == 0
    assert (project.output(task), project.show(task)["attemptCount"]) == ("done", 1)


def test_running_out_of_memory_is_named(project: DockerProject) -> None:
    project.configure(docker={"image": APP, "resources": {"memoryMb": 32}})
    project.start(count=1)
    task = add(project, "eat=200", flags=("--retries", "0"))
    project.wait(task)
    shown = project.show(task)
    assert shown["error"]["code"] == "RESOURCE_EXHAUSTED"
    assert shown["attempts"][-1]["oom"] is True


@pytest.mark.needs("assemblers")
@pytest.mark.parametrize(
    ("machine", "assembler"), [("x86_64", "as"), ("aarch64", "aarch64-linux-gnu-as")]
)
def test_the_keeper_is_what_its_source_says(machine: str, assembler: str, tmp_path: Path) -> None:
    made = program(machine)
    assert made is not None
    source, target = SOURCES / f"keeper.{machine}.s", tmp_path / "keeper.o"
    subprocess.run([assembler, "-o", target, source], check=True)
    assert made[120:] in target.read_bytes()


def test_other_processors_need_a_shell() -> None:
    assert program("pdp11") is None
