"""A user's day with acode: every command there is, on one project with a real pool."""

import signal

import pytest

from acode.cli.main import build
from tests.pool.conftest import PoolProject, eventually
from tests.pool.test_worktrees import Repository
from tools import reference

ELSEWHERE = {"queue migrate"}
"""Needs a PostgreSQL; tests/postgres drive it."""


class Tour:
    """Runs commands, and remembers which."""

    def __init__(self, project: PoolProject) -> None:
        self.project = project
        self.seen: set[str] = set()
        self.all = {
            command.prog.removeprefix("acode ") for command in reference.commands(build([]))
        }

    def __call__(self, *words: str, code: int = 0) -> str:
        self._note(words)
        done = self.project.run(*words)
        assert done.code == code, done
        return done.out.strip()

    def until(self, said: str, *words: str) -> None:
        """Interrupt a command that goes on once it has said this."""
        self._note(words)
        with self.project.popen(*words) as running:
            assert running.stdout is not None
            assert any(said in line for line in running.stdout)
            running.send_signal(signal.SIGINT)

    def _note(self, words: tuple[str, ...]) -> None:
        self.seen |= {" ".join(words[:2]), words[0]} & self.all


@pytest.mark.req("027-AC-014")
def test_every_command_does_its_part(pool_project: PoolProject) -> None:
    acode = Tour(pool_project)
    repository = Repository(pool_project)
    before = repository.fingerprint()

    acode("init")
    acode("doctor")
    acode("bench", "disk", "--quick")
    assert "_ARGCOMPLETE" in acode("completion", "bash")
    assert "Worker pool started" in acode("worker", "start", "--count", "2")
    assert "/login?code=" in acode("dashboard", "--link")

    edit = acode("task", "add", "--title", "edit", "--", "echo new > file; echo done")
    assert "completed" in acode("task", "wait", edit)
    assert acode("task", "logs", edit) == "done"
    assert "+new" in acode("task", "diff", edit)
    assert f"acode/{edit}" in acode("task", "show", edit)
    assert "completed" in acode("task", "why", edit)
    assert "edit" in acode("task", "list")

    bad = acode("task", "add", "--", "echo half > file; exit 3")
    acode("task", "wait", bad, code=1)
    assert bad in acode("dlq", "list")
    assert "EXIT_CODE" in acode("dlq", "show", bad)
    acode("task", "restore", bad)
    assert repository.git("branch", "--list", f"acode/*{bad}*")
    acode("dlq", "retry", bad)
    acode("task", "wait", bad, code=1)
    acode("task", "retry", bad)
    acode("task", "wait", bad, code=1)
    acode("dlq", "drop", bad)
    assert acode("dlq", "list", "--json") == "[]"

    chatty = acode("task", "add", "--", "while :; do echo tick; sleep 0.1; done")
    busy = eventually(lambda: pool_project.show(chatty)["workerId"])
    acode.until("tick", "worker", "attach", busy)
    assert pool_project.status(chatty) == "running"
    acode("task", "cancel", chatty)
    acode("task", "wait", chatty, code=1)

    acode("queue", "pause")
    later = acode("task", "add", "--", "true")
    assert "paused" in acode("task", "why", later)
    acode("queue", "resume")
    acode("task", "wait", later)
    acode("queue", "status")
    acode("queue", "check")
    acode("queue", "recover")
    acode("queue", "backup", "copy.db")

    acode("worker", "scale", "3")
    assert len(pool_project.workers()) == 3
    acode("worker", "status")
    acode("worker", "list")
    assert "tick" in acode("worker", "logs")
    assert "Worker pool stopped" in acode("worker", "stop")

    pool_project.root.joinpath("tasks.txt").write_text("true\ntrue\n")
    acode("run", "tasks.txt")

    for name in ("tasks.txt", "copy.db"):
        pool_project.root.joinpath(name).unlink()
    assert repository.fingerprint() == before
    assert acode.seen == acode.all - ELSEWHERE
