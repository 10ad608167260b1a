"""Attempts with more to do than to run a command: checks, artifacts, and a steward that may die."""

import json
import os
from pathlib import Path

import psutil
import pytest

from tests.pool.conftest import PoolProject, eventually


def stewards(project: PoolProject) -> list[psutil.Process]:
    """Processes between a worker and its command."""
    workers = [psutil.Process(worker["pid"]) for worker in project.workers()]
    return [child for worker in workers for child in worker.children()]


def check(project: PoolProject, **commands: str) -> None:
    project.configure(tasks=commands)


@pytest.mark.req("027a-FR-058", "027a-FR-059")
def test_checks_run_in_the_workspace_and_decide(pool_project: PoolProject) -> None:
    check(pool_project, buildCommand="test -e built", testCommand="grep -q good built")
    pool_project.start()
    good = pool_project.add("echo good > built")
    bad = pool_project.add("echo bad > built")
    lazy = pool_project.add("true")
    assert pool_project.wait(good, bad, lazy).code == 1
    assert pool_project.show(good)["checks"] == {"buildCommand": 0, "testCommand": 0}
    shown = pool_project.show(bad)
    assert (shown["status"], shown["exitCode"], shown["checks"]["testCommand"]) == ("failed", 1, 1)
    assert shown["error"]["code"] == "EXIT_CODE"
    assert shown["error"]["message"].startswith("testCommand failed")
    assert pool_project.show(lazy)["checks"] == {"buildCommand": 1}


def test_a_failed_command_is_not_checked(pool_project: PoolProject) -> None:
    check(pool_project, testCommand=f"touch {pool_project.root}/checked")
    pool_project.start()
    task = pool_project.add("exit 3")
    pool_project.wait(task)
    assert pool_project.show(task)["exitCode"] == 3
    assert not (pool_project.root / "checked").exists()


def test_the_output_of_checks_is_in_the_log_of_the_task(pool_project: PoolProject) -> None:
    check(pool_project, testCommand="echo from the check")
    pool_project.start()
    task = pool_project.add("echo from the command")
    pool_project.wait(task)
    assert pool_project.output(task) == "from the command\nfrom the check"


def test_time_is_up_for_command_and_checks_together(pool_project: PoolProject) -> None:
    check(pool_project, testCommand="sleep 1000")
    pool_project.start()
    task = pool_project.add("true", "--timeout", "1", "--retries", "0")
    pool_project.wait(task)
    shown = pool_project.show(task)
    assert shown["attempts"][0]["ending"] == "timedOut"
    assert shown["error"]["code"] == "TIMEOUT"


def test_a_cancelled_check_ends_with_everything_below_it(pool_project: PoolProject) -> None:
    marker = pool_project.root / "pid"
    check(pool_project, testCommand=f"setsid sh -c 'echo $$ > {marker}; exec sleep 1000'")
    pool_project.start()
    task = pool_project.add("true")
    eventually(lambda: marker.exists() and marker.read_text().endswith("\n"))
    sleeper = psutil.Process(int(marker.read_text()))
    assert pool_project.run("task", "cancel", task).code == 0
    pool_project.wait(task)
    assert pool_project.status(task) == "cancelled"
    eventually(lambda: not sleeper.is_running())


def test_what_a_command_leaves_running_ends_before_the_checks(pool_project: PoolProject) -> None:
    marker = pool_project.root / "pid"
    check(pool_project, testCommand=f"! kill -0 $(cat {marker})")
    pool_project.start()
    task = pool_project.add(f"setsid sleep 1000 & echo $! > {marker}")
    assert pool_project.wait(task).code == 0, pool_project.show(task)


def test_files_that_fit_a_pattern_are_kept(pool_project: PoolProject) -> None:
    pool_project.start()
    task = pool_project.add(
        "mkdir -p dist/deep; echo a > dist/a.txt; echo b > dist/deep/b.txt; echo c > other.txt;"
        "ln -s /etc/passwd dist/stolen.txt; echo staged > $ACODE_ARTIFACTS_DIR/staged;"
        "ln -s /etc/passwd $ACODE_ARTIFACTS_DIR/link",
        "--artifact",
        "dist/**/*.txt",
    )
    assert pool_project.wait(task).code == 0
    kept = pool_project.agent / "artifacts" / task
    assert pool_project.show(task)["artifacts"] == ["dist/a.txt", "dist/deep/b.txt", "staged"]
    assert (kept / "dist/deep/b.txt").read_text() == "b\n"
    assert {p.name for p in kept.rglob("*") if not p.is_dir()} == {"a.txt", "b.txt", "staged"}
    assert not any(p.is_symlink() for p in kept.rglob("*"))
    log = pool_project.run("task", "logs", task, "--format", "json").out
    assert "stolen.txt is not a file of the workspace" in log


def test_artifacts_that_are_too_large_are_left_out(pool_project: PoolProject) -> None:
    pool_project.configure(workers={"limits": {"diskMb": 1}})
    pool_project.start()
    task = pool_project.add("head -c 2000000 /dev/zero > big; echo s > small", "--artifact", "*")
    pool_project.wait(task)
    assert pool_project.show(task)["artifacts"] == ["small"]


def test_a_steward_that_is_killed_is_no_fault_of_the_worker(pool_project: PoolProject) -> None:
    check(pool_project, testCommand="true")
    pool_project.start(count=1)
    worker = pool_project.workers()[0]["pid"]
    marker = pool_project.root / "pid"
    task = pool_project.add(f"[ -e {marker} ] || {{ echo $$ > {marker}; setsid sleep 1000; }}")
    eventually(lambda: marker.exists() and marker.read_text())
    command = psutil.Process(int(marker.read_text()))
    (steward,) = stewards(pool_project)
    steward.kill()
    assert pool_project.wait(task).code == 0
    shown = pool_project.show(task)
    assert [attempt["ending"] for attempt in shown["attempts"]] == ["lost", "exited"]
    assert pool_project.workers()[0]["pid"] == worker
    assert not command.is_running()


def test_a_worker_that_is_killed_takes_its_steward_along(pool_project: PoolProject) -> None:
    check(pool_project, testCommand="true")
    pool_project.start(count=1)
    task = pool_project.hold("it")
    (steward,) = stewards(pool_project)
    below = [steward, *steward.children(recursive=True)]
    psutil.Process(pool_project.workers()[0]["pid"]).kill()
    eventually(lambda: not any(process.is_running() for process in below))
    pool_project.let_go("it")
    assert pool_project.wait(task).code == 0
    assert pool_project.show(task)["attemptCount"] == 2


def test_an_attempt_with_checks_outlives_the_daemon(pool_project: PoolProject) -> None:
    check(pool_project, testCommand="echo checked")
    pool_project.start(count=1)
    task = pool_project.hold("it")
    pool_project.kill_hard()
    pool_project.let_go("it")
    pool_project.start(count=1)
    assert pool_project.wait(task).code == 0
    assert pool_project.show(task)["attemptCount"] == 1
    assert "checked" in pool_project.output(task)


def test_the_project_itself_can_be_the_workspace(pool_project: PoolProject) -> None:
    (pool_project.root / "sub").mkdir()
    pool_project.start()
    flags = ("--workspace", "project")
    task = pool_project.add("pwd; touch here", *flags)
    below = pool_project.add("pwd", *flags, "--cwd", "sub")
    assert pool_project.wait(task, below).code == 0
    assert Path(pool_project.output(task)).samefile(pool_project.root)
    assert Path(pool_project.output(below)).samefile(pool_project.root / "sub")
    assert (pool_project.root / "here").exists()


@pytest.mark.parametrize("checked", [False, True])
def test_nothing_is_left_in_the_temporary_directory(
    pool_project: PoolProject, checked: bool
) -> None:
    if checked:
        check(pool_project, testCommand='test "$(cat $TMPDIR/file)" = kept')
    pool_project.start()
    task = pool_project.add('echo kept > "$TMPDIR/file"; echo "$TMPDIR"')
    assert pool_project.wait(task).code == 0
    directory = pool_project.output(task)
    eventually(lambda: not os.path.exists(directory))


def test_a_check_that_cannot_be_started_is_told(pool_project: PoolProject) -> None:
    check(pool_project, testCommand="no-such-program-anywhere")
    pool_project.start()
    task = pool_project.add("true")
    pool_project.wait(task)
    error = pool_project.show(task)["error"]
    assert error["message"].startswith("testCommand failed: the command ended with exit code 127")
    assert json.dumps(error)
