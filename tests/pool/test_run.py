"""`acode run`: a batch from its first task to its last, interrupted and taken up again."""

import hashlib
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from acode.clock import Deadline
from tests.cli.conftest import problem_of
from tests.cli.test_terminal import Terminal
from tests.pool.conftest import PoolProject, eventually


@pytest.fixture
def steps(pool_project: PoolProject) -> Path:
    """A file that tasks write a line to when they are done."""
    return pool_project.root / "steps"


def write(project: PoolProject, tasks: list[dict[str, Any]] | str, name: str = "batch") -> str:
    path = project.root / name
    path.write_text(tasks if isinstance(tasks, str) else json.dumps(tasks), encoding="utf-8")
    return str(path)


def held(project: PoolProject, name: str, steps: Path) -> str:
    """A command that says that it has begun, waits to be let go, and notes its end."""
    started, go = project.root / f"{name}.started", project.root / f"{name}.go"
    return f"touch {started}; while [ ! -e {go} ]; do sleep 0.02; done; echo {name} >> {steps}"


def has_started(project: PoolProject, name: str) -> bool:
    return (project.root / f"{name}.started").exists()


def finish(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_a_batch_is_run_from_start_to_end(pool_project: PoolProject, steps: Path) -> None:
    file = write(pool_project, f"echo a >> {steps}\necho b >> {steps}\n")
    done = pool_project.run("run", file, "--count", "2")
    assert done.code == 0, done
    assert sorted(steps.read_text().split()) == ["a", "b"]
    assert "running 2 tasks of " in done.out
    assert [line[:7] for line in done.out.splitlines() if "/2]" in line] == ["✓ [1/2]", "✓ [2/2]"]
    assert "2 completed in " in done.out.splitlines()[-1]
    assert not pool_project.has_daemon()
    assert not pool_project.processes()


def test_one_failure_fails_the_run_and_the_others_are_run(pool_project: PoolProject) -> None:
    done = pool_project.run("run", "-", "--count", "1", text="false\ntrue\n")
    assert done.code == 1
    assert "✗ [1/2] false: the command ended with exit code 1" in done.out
    assert "1 completed, 1 failed in " in done.out
    assert not pool_project.has_daemon()


def test_the_report_is_for_programs(pool_project: PoolProject) -> None:
    file = write(pool_project, [{"title": "good", "command": "true"}, {"command": "exit 3"}])
    done = pool_project.run("run", file, "--count", "1", "--json")
    assert done.code == 1
    report = done.json
    assert report["succeeded"] is False
    assert report["interrupted"] is False
    assert report["total"] == 2
    assert report["counts"]["completed"] == report["counts"]["failed"] == 1
    assert [task["exitCode"] for task in report["tasks"]] == [0, 3]
    assert report["tasks"][0]["title"] == "good"
    assert pool_project.show(report["tasks"][0]["id"])["status"] == "completed"


def test_a_pool_that_runs_is_used_and_left_alone(pool_project: PoolProject) -> None:
    pool_project.start(count=1)
    daemon = pool_project.daemon.pid
    done = pool_project.run("run", "-", "--count", "7", text="true\n")
    assert done.code == 0
    assert "it is used as it is" in done.err
    assert pool_project.daemon.pid == daemon
    assert len(pool_project.workers()) == 1


def test_tasks_of_others_are_not_counted(pool_project: PoolProject) -> None:
    others = pool_project.add_all([{"command": "false"}, {"command": "true"}])
    done = pool_project.run("run", "-", "--count", "2", "--json", text="true\n")
    assert done.code == 0
    assert done.json["total"] == 1
    assert not {task["id"] for task in done.json["tasks"]} & set(others)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing_running_and_loses_nothing(
    pool_project: PoolProject, steps: Path, number: signal.Signals
) -> None:
    file = write(
        pool_project,
        [
            {"command": f"echo first >> {steps}"},
            {"command": held(pool_project, "second", steps)},
            {"command": f"echo third >> {steps}"},
        ],
    )
    command = pool_project.popen("run", file, "--count", "1")
    eventually(lambda: has_started(pool_project, "second"))
    command.send_signal(number)
    code, out, err = finish(command)
    assert code == 130
    assert "the same command goes on with them" in err
    assert "2 pending, 1 completed in " in out
    assert not pool_project.has_daemon()
    assert not pool_project.processes()
    assert steps.read_text().split() == ["first"]
    tasks = pool_project.ask("task", "list")
    assert sorted(task["status"] for task in tasks) == ["completed", "pending", "pending"]

    pool_project.let_go("second")
    again = pool_project.run("run", file, "--count", "1", "--json")
    assert again.code == 0
    assert [task["id"] for task in again.json["tasks"]] == [task["id"] for task in tasks]
    assert all(task["attemptCount"] == 1 for task in again.json["tasks"])
    assert sorted(steps.read_text().split()) == ["first", "second", "third"]
    assert len(pool_project.ask("task", "list")) == 3


def test_a_run_that_is_interrupted_once_its_tasks_are_there_says_so(
    pool_project: PoolProject,
) -> None:
    file = write(pool_project, [{"command": "true"}])
    pool_project.prepare_fault("acode.cli.follow:Follower.__init__:before", "interrupt")
    pool_project.arm()
    done = pool_project.run("run", file, "--count", "1")
    assert (done.code, pool_project.is_struck()) == (130, True)
    assert "the same command goes on with them" in done.err
    assert not pool_project.processes()
    assert len(pool_project.ask("task", "list")) == 1
    assert pool_project.run("run", file, "--count", "1").code == 0
    assert len(pool_project.ask("task", "list")) == 1


def test_a_hang_up_that_is_ignored_does_not_interrupt(
    pool_project: PoolProject, steps: Path
) -> None:
    file = write(pool_project, held(pool_project, "one", steps))
    command = pool_project.popen(
        "run", file, "--count", "1", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
    )
    eventually(lambda: has_started(pool_project, "one"))
    command.send_signal(signal.SIGHUP)
    pool_project.let_go("one")
    assert finish(command)[0] == 0


@pytest.mark.parametrize("after", [0.0, 0.1, 0.2, 0.3, 0.5])
def test_an_interrupt_at_any_moment_leaves_nothing(pool_project: PoolProject, after: float) -> None:
    command = pool_project.popen("run", write(pool_project, "sleep 60\n"), "--count", "1")
    Deadline(after).rest(after)
    command.send_signal(signal.SIGINT)
    code, _, err = finish(command)
    # Until a command has something to tidy up, the signal itself ends it. Python gives up by
    # itself if it is hit in the middle of its own start.
    assert code in (130, -signal.SIGINT) or "Fatal Python error" in err
    assert not pool_project.has_daemon()
    assert not pool_project.processes()


def test_the_report_of_an_interrupted_run_says_so(pool_project: PoolProject, steps: Path) -> None:
    file = write(pool_project, held(pool_project, "one", steps))
    command = pool_project.popen("run", file, "--count", "1", "--json")
    eventually(lambda: has_started(pool_project, "one"))
    command.send_signal(signal.SIGINT)
    code, out, _ = finish(command)
    report = json.loads(out)
    assert code == 130
    assert report["interrupted"] is True
    assert report["counts"]["pending"] == 1


def test_a_run_that_was_finished_begins_anew(pool_project: PoolProject, steps: Path) -> None:
    file = write(pool_project, f"echo x >> {steps}\n")
    assert pool_project.run("run", file, "--count", "1").code == 0
    assert pool_project.run("run", file, "--count", "1").code == 0
    assert steps.read_text().split() == ["x", "x"]


def test_a_run_that_was_killed_is_taken_up_where_its_pool_is(
    pool_project: PoolProject, steps: Path
) -> None:
    file = write(pool_project, held(pool_project, "one", steps))
    command = pool_project.popen("run", file, "--count", "1")
    eventually(lambda: has_started(pool_project, "one"))
    command.kill()
    finish(command)
    again = pool_project.popen("run", file, "--json")
    pool_project.let_go("one")
    code, out, _ = finish(again)
    assert code == 0
    assert [task["attemptCount"] for task in json.loads(out)["tasks"]] == [1]
    assert steps.read_text().split() == ["one"]
    assert pool_project.has_daemon()


def test_a_pool_of_others_that_stops_is_replaced(pool_project: PoolProject, steps: Path) -> None:
    pool_project.start(count=1)
    file = write(
        pool_project,
        [{"command": held(pool_project, "one", steps)}, {"command": f"echo two >> {steps}"}],
    )
    command = pool_project.popen("run", file, "--count", "1")
    eventually(lambda: has_started(pool_project, "one"))
    pool_project.stop("--force")
    pool_project.let_go("one")
    code, out, _ = finish(command)
    assert code == 0, out
    assert sorted(steps.read_text().split()) == ["one", "two"]
    assert not pool_project.has_daemon()


def test_a_pool_of_its_own_that_is_stopped_ends_the_run(
    pool_project: PoolProject, steps: Path
) -> None:
    file = write(pool_project, held(pool_project, "one", steps))
    command = pool_project.popen("run", file, "--count", "1")
    eventually(lambda: has_started(pool_project, "one"))
    pool_project.stop("--force")
    code, _, err = finish(command)
    assert code == 1
    assert "WORKER-002: the pool was stopped before every task was done" in err


def test_what_waits_for_a_failure_ends_the_run_too(pool_project: PoolProject, steps: Path) -> None:
    go = pool_project.root / "go"
    file = write(
        pool_project,
        [
            {"name": "a", "command": f"test -e {go}"},
            {"name": "b", "command": f"echo b >> {steps}", "after": ["a"]},
            {"name": "c", "command": f"echo c >> {steps}", "after": ["b"]},
        ],
    )
    done = pool_project.run("run", file, "--count", "1", "--json")
    assert done.code == 1
    assert done.json["counts"]["failed"] == 1
    assert done.json["counts"]["blocked"] == 2
    go.touch()
    pool_project.run("task", "retry", done.json["tasks"][0]["id"])
    again = pool_project.run("run", file, "--count", "1", "--json")
    assert again.code == 0
    assert again.json["counts"]["completed"] == 3
    assert steps.read_text().split() == ["b", "c"]


def test_a_retry_is_told(pool_project: PoolProject, steps: Path) -> None:
    pool_project.configure(retry={"initialDelayMs": 1})
    command = f"test -e {steps} || {{ touch {steps}; exit 75; }}"
    file = write(pool_project, [{"title": "wobbly", "command": command}])
    done = pool_project.run("run", file, "--count", "1")
    assert done.code == 0
    assert "↻ wobbly: exit code 75; attempt 2 of 4" in done.out


def test_a_paused_queue_is_told(pool_project: PoolProject) -> None:
    pool_project.run("queue", "pause")
    with pool_project.popen("run", write(pool_project, "true\n"), "--count", "1") as command:
        assert command.stdout is not None
        lines = iter(command.stdout.readline, "")
        assert any("the queue is paused: acode queue resume" in line for line in lines)
        pool_project.run("queue", "resume")
        assert finish(command)[0] == 0


def test_a_file_that_is_refused_starts_nothing(pool_project: PoolProject) -> None:
    done = pool_project.run("run", "-", text='{"command": ""}')
    problem_of(done, 1, "INVALID_TASK")
    assert not pool_project.has_daemon()
    assert not (pool_project.agent / "queue.db").exists()


def test_a_missing_tool_stops_the_run_before_it_begins(pool_project: PoolProject) -> None:
    pool_project.configure(tools={"required": ["no-such-tool"]})
    done = pool_project.run("run", "-", text="true\n")
    problem_of(done, 3, "TOOL_NOT_FOUND")
    assert pool_project.ask("task", "list") == []


def test_a_torn_note_of_a_run_is_no_obstacle(pool_project: PoolProject) -> None:
    assert pool_project.run("run", "-", "--count", "1", text="true\n").code == 0
    notes = pool_project.agent / "run" / "batches"
    assert not list(notes.iterdir())
    (notes / hashlib.sha256(b"true\n").hexdigest()[:16]).write_bytes(b"\xff")
    assert pool_project.run("run", "-", "--count", "1", text="true\n").code == 0
    assert not list(notes.iterdir())


def test_a_terminal_shows_a_bar(pool_project: PoolProject, steps: Path) -> None:
    file = write(pool_project, "true\nfalse\n" + held(pool_project, "slow", steps) + "\n")
    terminal = Terminal(pool_project.cli, "run", file, "--count", "1")
    terminal.read_until(lambda text: "2/3 done · 1 running · 1 failed" in text and "/s · " in text)
    pool_project.let_go("slow")
    text = terminal.finish()
    assert terminal.process.returncode == 1
    assert "✓ [1/3] true" in text
    assert "2 completed, 1 failed in " in text


def test_ctrl_c_on_a_terminal_ends_the_run(pool_project: PoolProject, steps: Path) -> None:
    file = write(pool_project, held(pool_project, "slow", steps))
    terminal = Terminal(pool_project.cli, "run", file, "--count", "1")
    terminal.read_until(lambda text: "1 running" in text)
    os.killpg(terminal.process.pid, signal.SIGINT)
    terminal.finish()
    assert terminal.process.returncode == 130
    assert not pool_project.has_daemon()
