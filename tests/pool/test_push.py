"""Result branches reach the remote that the settings name, sooner or later."""

import subprocess

import pytest

from tests.pool.conftest import PoolProject, eventually
from tests.pool.test_worktrees import Repository


class Shared:
    """A project with a remote."""

    def __init__(self, project: PoolProject) -> None:
        self.project = project
        self.repository = Repository(project)
        self.bare = project.root.parent / "remote.git"
        subprocess.run(["git", "init", "-q", "--bare", str(self.bare)], check=True)
        self.repository.git("remote", "add", "origin", str(self.bare))
        project.configure(results={"push": "origin"})

    def at_remote(self, branch: str) -> str | None:
        words = ["git", "-C", str(self.bare), "rev-parse", "--verify", "-q", f"refs/heads/{branch}"]
        return subprocess.run(words, check=False, capture_output=True, text=True).stdout or None

    def here(self, branch: str) -> str:
        return self.repository.git("rev-parse", branch)


@pytest.fixture
def shared(pool_project: PoolProject) -> Shared:
    return Shared(pool_project)


def test_a_branch_is_at_the_remote_when_its_task_is_done(shared: Shared) -> None:
    shared.project.start()
    before = shared.repository.fingerprint()
    hook = shared.project.root / ".git" / "hooks" / "pre-push"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    task = shared.project.add("echo new > new")
    assert shared.project.wait(task).code == 0
    shown = shared.project.show(task)
    assert shown["branch"] == f"acode/{task}"
    assert shown["push"] == {"remote": "origin", "problem": None}
    assert shared.at_remote(f"acode/{task}") == shared.here(f"acode/{task}")
    assert "Pushed" in shared.project.run("task", "show", task).out
    hook.unlink()
    assert shared.repository.fingerprint() == before


def test_a_failed_push_loses_nothing_and_is_tried_again(shared: Shared) -> None:
    away = shared.bare.with_name("away.git")
    shared.bare.rename(away)
    shared.project.start()
    task = shared.project.add("echo new > new")
    assert shared.project.wait(task).code == 0
    shown = shared.project.show(task)
    assert shown["branch"] == f"acode/{task}"
    assert shown["push"]["remote"] == "origin"
    assert "remote.git" in shown["push"]["problem"]
    assert "not yet; origin is tried again" in shared.project.run("task", "show", task).out
    assert "is not pushed" in shared.project.run("task", "logs", task).err
    assert shared.here(f"acode/{task}")
    shared.project.stop()
    away.rename(shared.bare)
    shared.project.start()  # a new pool looks at once, a running one after a minute
    eventually(lambda: shared.at_remote(f"acode/{task}"))
    notes = shared.project.agent / "run" / "push"
    eventually(lambda: not list(notes.iterdir()))
    assert shared.project.show(task)["push"] == {"remote": "origin", "problem": None}


def test_a_task_that_failed_pushes_nothing(shared: Shared) -> None:
    shared.project.start()
    task = shared.project.add("echo new > new; exit 1")
    assert shared.project.wait(task).code == 1
    assert shared.project.show(task)["push"] is None
    assert shared.at_remote(f"acode/{task}") is None


def test_what_is_no_name_of_a_commit_is_refused_when_it_is_added(pool_project: PoolProject) -> None:
    project = pool_project
    for word in ("no/../x", "a..b", "x.lock", "a b", "HEAD:file"):
        done = project.run("task", "add", "--base", word, "--", "true")
        assert done.code == 2, done
        assert "a branch, tag or commit" in done.err
    for word in ("main", "HEAD~2", "v1.0^{commit}", "@{upstream}", "origin/main"):
        assert project.run("task", "add", "--base", word, "--dry-run", "--", "true").code == 0


def test_results_begin_where_another_ended(shared: Shared) -> None:
    shared.project.start()
    first = shared.project.add("echo one > one")
    then = shared.project.add("cat one", "--after", first, "--base", f"acode/{first}")
    assert shared.project.wait(then).code == 0
    assert shared.project.output(then) == "one"


def test_what_a_stale_attempt_left_at_the_remote_is_replaced(shared: Shared) -> None:
    task = shared.project.add("echo new > new")
    shared.repository.git("commit", "-q", "--allow-empty", "-m", "stale")
    shared.repository.git("push", "-q", "origin", f"HEAD:refs/heads/acode/{task}")
    shared.repository.git("reset", "-q", "--soft", "HEAD~1")
    stale = shared.at_remote(f"acode/{task}")
    shared.project.start()
    assert shared.project.wait(task).code == 0
    assert shared.project.show(task)["push"] == {"remote": "origin", "problem": None}
    assert shared.at_remote(f"acode/{task}") == shared.here(f"acode/{task}") != stale
