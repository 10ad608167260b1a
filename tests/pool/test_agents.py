"""Coding agents in the pool. The agent is a stand-in that speaks the stream of the real one."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from acode.clock import SystemClock, from_iso
from tests.pool.conftest import PoolProject, eventually

STAND_IN = Path(__file__).parents[1] / "standin_agent.py"
SESSION = "5a3d9c4e-0000-4000-8000-57a4d14a6e47"


def configure(project: PoolProject, **keys: Any) -> None:
    """An agent called stand-in, with some keys of its own."""
    command = [sys.executable, "-I", str(STAND_IN), "{prompt}"]
    project.configure(
        agents={"stand-in": {"command": command, **keys}},
        workers={"process": {"killTimeoutSeconds": 1}},
        retry={"initialDelayMs": 1},
    )


def add(project: PoolProject, prompt: str, *flags: str) -> str:
    return project.cli.add("--type", "stand-in", *flags, "--", prompt)


def log_of(project: PoolProject, task: str) -> list[str]:
    return project.output(task).splitlines()


def reasons(project: PoolProject, task: str) -> str:
    return "\n".join(project.ask("task", "why", task)["reasons"])


@pytest.mark.req("forge-12")
def test_an_agent_is_read_while_it_works(pool_project: PoolProject) -> None:
    configure(pool_project)
    go = pool_project.root / "go"
    task = add(pool_project, f"say I begin; wait {go}; write notes.txt hello; noise")
    pool_project.start(count=1)
    eventually(lambda: "I begin" in log_of(pool_project, task))
    assert pool_project.status(task) == "running"
    go.touch()
    assert pool_project.wait(task).code == 0
    log = log_of(pool_project, task)
    assert log[:2] == [f"session {SESSION}, model stand-in-1", "I begin"]
    assert "→ Write: notes.txt" in log
    assert "← written" in log
    assert "{broken" in log
    assert log[-1] == "✓ done: 4 turns, $0.2500, 1.2 s"
    assert pool_project.show(task)["agent"] == {
        "sessionId": SESSION,
        "model": "stand-in-1",
        "turns": 4,
        "costUsd": 0.25,
        "durationMs": 1200,
        "isError": False,
        "result": "all steps are done",
        "limit": None,
    }


def test_an_event_of_many_megabytes_does_not_reach_the_log(pool_project: PoolProject) -> None:
    configure(pool_project)
    pool_project.start(count=1)
    task = add(pool_project, "huge 6000000; say done")
    assert pool_project.wait(task).code == 0
    assert max(map(len, log_of(pool_project, task))) < 300
    assert pool_project.show(task)["agent"]["turns"] == 2


def test_an_agent_that_reports_a_failure_has_failed_whatever_its_exit_code(
    pool_project: PoolProject,
) -> None:
    configure(pool_project)
    pool_project.start(count=1)
    task = add(pool_project, "fail I could not do it; exit 0")
    pool_project.wait(task)
    shown = pool_project.show(task)
    assert shown["status"] == "failed"
    assert shown["exitCode"] == 0
    assert shown["error"]["code"] == "EXIT_CODE"
    assert "I could not do it" in shown["error"]["message"]
    assert shown["attemptCount"] == 1
    assert shown["agent"]["isError"] is True


def test_an_agent_without_a_result_has_failed(pool_project: PoolProject) -> None:
    configure(pool_project)
    pool_project.start(count=1)
    task = add(pool_project, "say hello; silent")
    pool_project.wait(task)
    assert "without a result" in pool_project.show(task)["error"]["message"]


def test_trouble_that_passes_is_tried_again(pool_project: PoolProject) -> None:
    configure(pool_project)
    pool_project.start(count=1)
    task = add(pool_project, "trouble overloaded The service is overloaded", "--retries", "1")
    hopeless = add(pool_project, "trouble billing_error No credit", "--retries", "5")
    pool_project.wait(task, hopeless)
    assert pool_project.show(task)["attemptCount"] == 2
    assert pool_project.show(task)["error"]["category"] == "transient"
    assert pool_project.show(hopeless)["attemptCount"] == 1


@pytest.mark.parametrize(("prompt", "status"), [("hang", "completed"), ("fail no; hang", "failed")])
def test_an_agent_that_hangs_after_its_result_counts_by_the_result(
    pool_project: PoolProject, prompt: str, status: str
) -> None:
    configure(pool_project, resultGraceSeconds=0.2)
    pool_project.start(count=1)
    task = add(pool_project, prompt, "--timeout", "300")
    pool_project.wait(task)
    shown = pool_project.show(task)
    assert shown["status"] == status
    assert shown["attempts"][0]["ending"] == "exited"
    assert shown["attemptCount"] == 1
    lines = pool_project.run("task", "logs", task, "--format", "json").out
    assert "has printed its result and does not end" in lines


def test_an_idle_agent_is_stopped(pool_project: PoolProject) -> None:
    configure(pool_project, idleTimeoutSeconds=0.3)
    pool_project.start(count=1)
    task = add(pool_project, "say hello; rest 300", "--retries", "0")
    pool_project.wait(task)
    error = pool_project.show(task)["error"]
    assert (error["code"], error["category"]) == ("TIMEOUT", "transient")
    assert "idle: it printed nothing for 0.3 s" in error["message"]
    assert pool_project.show(task)["attempts"][0]["ending"] == "timedOut"


def test_an_agent_that_prints_is_not_idle(pool_project: PoolProject) -> None:
    configure(pool_project, idleTimeoutSeconds=5)
    pool_project.start(count=1)
    task = add(pool_project, ";".join(["rest 1; say still here"] * 6))
    assert pool_project.wait(task).code == 0


@pytest.mark.parametrize(("verify", "code"), [("test -e made", 0), ("test -e other", 1)])
def test_done_is_a_claim_and_the_check_decides(
    pool_project: PoolProject, verify: str, code: int
) -> None:
    configure(pool_project, verify=verify)
    pool_project.start(count=1)
    task = add(pool_project, "write made yes")
    plain = pool_project.add("true")
    assert pool_project.wait(task).code == code
    shown = pool_project.show(task)
    assert shown["checks"] == {"verify": code}
    assert shown["agent"]["isError"] is False
    if code:
        assert shown["error"]["message"].startswith("verify failed")
    assert pool_project.wait(plain).code == 0
    assert pool_project.show(plain)["checks"] == {}


def test_a_failed_agent_is_not_verified(pool_project: PoolProject) -> None:
    configure(pool_project, verify="true")
    pool_project.start(count=1)
    task = add(pool_project, "fail no")
    pool_project.wait(task)
    assert pool_project.show(task)["checks"] == {}


def test_a_run_adds_up_what_its_agents_cost(pool_project: PoolProject) -> None:
    configure(pool_project)
    tasks = [{"type": "stand-in", "command": "say hi"}] * 2 + [{"command": "true"}]
    done = pool_project.run("run", "-", "--count", "1", text=json.dumps(tasks))
    assert done.out.splitlines()[-1].endswith("s, $0.50")


def test_what_an_agent_said_while_no_daemon_was_there_is_kept(pool_project: PoolProject) -> None:
    configure(pool_project)
    pool_project.start(count=1)
    go = pool_project.root / "go"
    task = add(pool_project, f"say I begin; wait {go}")
    eventually(lambda: "I begin" in log_of(pool_project, task))
    pool_project.kill_hard()
    go.touch()
    eventually(lambda: "✓ done" in pool_project.output(task))
    pool_project.start(count=1)
    assert pool_project.wait(task).code == 0
    shown = pool_project.show(task)
    assert shown["attemptCount"] == 1
    assert shown["agent"]["costUsd"] == 0.25


# Usage limits.


def limited(project: PoolProject, seconds: int, *flags: str) -> str:
    """A task whose first attempt meets a limit."""
    task = add(project, f"limit {seconds} {project.root / 'met'}", *flags)
    eventually(lambda: "paused" in reasons(project, task))
    return task


def test_a_usage_limit_pauses_the_agents_tasks_and_burns_no_attempt(
    pool_project: PoolProject,
) -> None:
    configure(pool_project)
    pool_project.start(count=1)
    task = limited(pool_project, 3600, "--workstream", "a")
    others = [add(pool_project, "say hello", "--workstream", name) for name in ("a", "b")]
    plain = [pool_project.add("true") for _ in range(3)]
    assert pool_project.wait(*plain).code == 0
    shown = pool_project.show(task)
    assert shown["status"] == "pending"
    assert shown["attemptCount"] == 0
    assert shown["attempts"][0]["ending"] == "released"
    assert shown["error"] is None
    assert [pool_project.show(other)["attempts"] for other in others] == [[], []]
    why = reasons(pool_project, others[1])
    assert "stand-in tasks are paused until " in why
    assert "You've hit your session limit" in why
    (pause,) = pool_project.pool()["pauses"]
    assert pause["type"] == "stand-in"
    left = from_iso(pause["until"]) - SystemClock().now()
    assert 3_000_000 < left <= 3_600_000


def test_after_the_limit_the_tasks_go_on(pool_project: PoolProject) -> None:
    configure(pool_project)
    pool_project.start(count=1)
    task = limited(pool_project, 4)
    assert pool_project.wait(task).code == 0
    shown = pool_project.show(task)
    assert shown["attemptCount"] == 1
    assert [attempt["ending"] for attempt in shown["attempts"]] == ["released", "exited"]


def test_a_limit_outlives_the_daemon(pool_project: PoolProject) -> None:
    configure(pool_project)
    pool_project.start(count=1)
    limited(pool_project, 3600)
    pool_project.kill_hard()
    pool_project.start(count=1)
    other = add(pool_project, "say hello")
    plain = pool_project.add("true")
    assert pool_project.wait(plain).code == 0
    assert pool_project.show(other)["attempts"] == []
    assert "paused until" in reasons(pool_project, other)


@pytest.mark.parametrize("running", [True, False])
def test_a_user_who_resumes_the_queue_lifts_the_limit(
    pool_project: PoolProject, running: bool
) -> None:
    configure(pool_project)
    pool_project.start(count=1)
    task = limited(pool_project, 3600)
    if not running:
        pool_project.stop()
    pool_project.run("queue", "resume")
    if not running:
        pool_project.start(count=1)
    assert pool_project.wait(task).code == 0


# How an agent is called.


def fake_claude(project: PoolProject, script: str) -> None:
    """A program of the name that the settings call by default."""
    folder = project.root / "bin"
    folder.mkdir()
    program = folder / "claude"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    project.env["PATH"] = f"{folder}:{project.env['PATH']}"


@pytest.mark.req("forge-12")
def test_claude_code_is_called_as_its_help_says(pool_project: PoolProject) -> None:
    fake_claude(pool_project, 'for word; do echo "$word"; done; cat; echo "$ANTHROPIC_API_KEY"')
    pool_project.env["ANTHROPIC_API_KEY"] = "sk-test"
    pool_project.start(count=1)
    task = pool_project.cli.add(
        "--type", "claude-code", "--", "Fix the 'bug' in $HOME", "--permission-mode", "acceptEdits"
    )
    assert pool_project.wait(task).code == 0
    assert log_of(pool_project, task) == [
        "-p",
        "Fix the 'bug' in $HOME",
        "--output-format",
        "stream-json",
        "--verbose",
        "--permission-mode",
        "acceptEdits",
        "sk-test",
    ]
    assert pool_project.show(task)["agent"] is None


def test_a_prompt_is_never_an_option(pool_project: PoolProject) -> None:
    fake_claude(pool_project, 'echo "[$2]"')
    pool_project.start(count=1)
    task = pool_project.cli.add("--type", "claude-code", "--", "--dangerous")
    assert pool_project.wait(task).code == 0
    assert log_of(pool_project, task) == ["[ --dangerous]"]


def test_a_recorded_run_of_the_real_agent_is_read(pool_project: PoolProject) -> None:
    recorded = Path(__file__).parents[1] / "unit/runner/agent/recorded/tool.jsonl"
    fake_claude(pool_project, f"cat {recorded}")
    pool_project.start(count=1)
    task = pool_project.cli.add("--type", "claude-code", "--", "say hi")
    assert pool_project.wait(task).code == 0
    assert log_of(pool_project, task)[-1] == "✓ done: 2 turns, $0.0011, 0.1 s"
    agent = pool_project.show(task)["agent"]
    assert agent["sessionId"] == json.loads(recorded.read_text().splitlines()[0])["session_id"]


def test_output_of_an_agent_in_text_is_left_alone(pool_project: PoolProject) -> None:
    configure(pool_project, format="text")
    pool_project.start(count=1)
    task = add(pool_project, "say hello; exit 0")
    assert pool_project.wait(task).code == 0
    assert json.loads(log_of(pool_project, task)[0])["type"] == "system"
    assert pool_project.show(task)["agent"] is None


@pytest.mark.needs("landlock")
def test_an_agent_writes_to_its_own_directory_and_to_no_other(pool_project: PoolProject) -> None:
    home = pool_project.root.parent / "home"
    home.mkdir()
    pool_project.env["HOME"] = str(home)
    del pool_project.env["ACODE_SANDBOX__LEVEL"]
    configure(pool_project, writePaths=["~/.stand-in"])
    pool_project.start(count=1)
    good = add(pool_project, f"run echo kept > {home}/.stand-in/notes")
    bad = add(pool_project, f"run echo lost > {home}/notes")
    other = pool_project.add(f"echo lost > {home}/.stand-in/other")
    pool_project.wait(good, bad, other)
    assert (home / ".stand-in" / "notes").read_text() == "kept\n"
    assert sorted(path.name for path in home.rglob("*")) == [".stand-in", "notes"]
    assert pool_project.status(other) == "failed"
