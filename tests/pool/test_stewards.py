"""Stewards do one attempt after the other, as long as nothing of the last one is left."""

import subprocess
from pathlib import Path

import psutil
import pytest

from tests.pool.conftest import PoolProject, eventually

TELL = 'echo "$PPID $TMPDIR"'


@pytest.fixture
def repository(pool_project: PoolProject) -> PoolProject:
    """A project in git, so that every task gets a worktree and with it a steward."""
    (pool_project.root / "file").write_text("hello\n")
    for words in (
        ("init", "-q", "-b", "main"),
        ("config", "user.name", "User"),
        ("config", "user.email", "user@example.org"),
        ("add", "-A"),
        ("commit", "-qm", "first"),
    ):
        subprocess.run(["git", *words], cwd=pool_project.root, check=True)
    return pool_project


def steward_of(project: PoolProject, command: str = "true", *flags: str) -> int:
    """The steward that did a task, when it has tidied up."""
    task = project.add(f"{TELL}; {command}", *flags)
    assert project.wait(task).code == 0, project.show(task)
    pid, directory = project.output(task).splitlines()[0].split()
    eventually(lambda: not Path(directory).exists())
    assert project.show(task)["attemptCount"] == 1
    return int(pid)


@pytest.mark.needs("git")
def test_a_steward_that_has_tidied_up_does_the_next_attempt(repository: PoolProject) -> None:
    repository.start(count=1)
    seen = [steward_of(repository, f"echo {number} > file") for number in range(5)]
    # One that has just tidied up may be a moment late for the next.
    assert len(set(seen)) < len(seen)
    branches = subprocess.check_output(
        ["git", "for-each-ref", "--format=%(contents:subject)", "refs/heads/acode"],
        cwd=repository.root,
        text=True,
    )
    assert branches.count("\n") == 5


@pytest.mark.needs("git")
def test_one_that_waits_for_work_may_die(repository: PoolProject) -> None:
    repository.start(count=1)
    first = steward_of(repository)
    psutil.Process(first).kill()
    eventually(lambda: not psutil.pid_exists(first))
    assert steward_of(repository) != first


@pytest.mark.needs("git")
def test_plain_commands_go_on_beside_one_that_waits(repository: PoolProject) -> None:
    repository.start(count=1)
    steward = psutil.Process(steward_of(repository))
    plain = repository.add("setsid sleep 1000 & echo plain", "--workspace", "scratch")
    assert repository.wait(plain).code == 0, repository.show(plain)
    assert repository.output(plain) == "plain"
    assert steward.is_running()


@pytest.mark.needs("git")
def test_whoever_waits_leaves_with_the_worker(repository: PoolProject) -> None:
    repository.start(count=1)
    steward = psutil.Process(steward_of(repository))
    assert repository.stop().code == 0
    assert not steward.is_running()


@pytest.mark.needs("git", "root")
def test_what_a_task_has_mounted_is_gone_with_its_steward(repository: PoolProject) -> None:
    place = repository.root.parent / "mounted"
    place.mkdir()
    repository.configure(sandbox={"level": "off"})
    repository.start(count=1)
    first = steward_of(repository, f"mount -t tmpfs none {place}; mountpoint -q {place}")
    second = steward_of(repository, f"! mountpoint -q {place}")
    assert first != second


@pytest.mark.needs("git")
def test_a_task_that_cannot_have_a_workspace_costs_the_next_one_nothing(
    repository: PoolProject,
) -> None:
    repository.start(count=1)
    refused = repository.add("true", "--base", "no-such-branch")
    assert repository.wait(refused).code == 1
    assert repository.show(refused)["error"]["code"] == "INVALID_TASK"
    assert steward_of(repository)


@pytest.mark.needs("git")
def test_a_command_that_is_born_late_still_hears_that_it_is_to_end(repository: PoolProject) -> None:
    repository.configure(workers={"process": {"killTimeoutSeconds": 600}})
    repository.prepare_fault("acode.worker.steward:fork_and_exec:before", action="2")
    repository.start(count=1)
    repository.arm()
    task = repository.add("sleep 1000", "--timeout", "1", "--retries", "0")
    assert repository.wait(task).code == 1
    assert repository.is_struck()
    (attempt,) = repository.show(task)["attempts"]
    assert attempt["ending"] == "timedOut"
    assert "SIGKILL" not in repository.run("task", "logs", task).out
