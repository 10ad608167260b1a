"""Tasks on a repository: each in a tree of its own, results as branches, the user undisturbed."""

import hashlib
import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from tests.pool.conftest import PoolProject, eventually


class Repository:
    """A project in git, with work of its user under way."""

    def __init__(self, project: PoolProject) -> None:
        self.project = project
        self.root = project.root
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "User")
        self.git("config", "user.email", "user@example.org")
        self.write("README", "hello\n")
        self.write("src/code.py", "print('hello')\n")
        self.write(".gitignore", "ignored/\n*.log\n")
        self.git("add", "-A")
        self.git("commit", "-qm", "first")
        self.write("src/code.py", "print('the user is at work')\n")
        self.write("staged", "staged\n")
        self.git("add", "staged")
        self.write("untracked", "untracked\n")
        self.hooked = self.root.parent / "hooked"
        hook = self.root / ".git" / "hooks" / "post-checkout"
        hook.write_text(f"#!/bin/sh\ntouch '{self.hooked}'\n")
        hook.chmod(0o755)

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.root, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def fingerprint(self) -> dict[str, str]:
        """Everything that is the user's: files, index, settings, hooks, stash, own branches."""
        kept = {}
        for directory, folders, files in os.walk(self.root):
            if Path(directory) == self.root:
                folders[:] = [name for name in folders if name not in (".agent", ".git")]
            for name in files:
                path = Path(directory, name)
                kept[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
        for name in ("index", "config", "HEAD", "hooks/post-checkout"):
            path = self.root / ".git" / name
            kept[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
        kept["main"] = self.git("rev-parse", "main")
        kept["status"] = self.git("status", "--porcelain")
        return kept

    def branch_of(self, task: str) -> str:
        return str(self.project.show(task)["branch"])

    def show(self, branch: str, name: str) -> str:
        return self.git("show", f"{branch}:{name}")

    def trees(self) -> list[str]:
        listed = self.git("worktree", "list", "--porcelain").splitlines()
        return [line for line in listed if line.startswith("worktree ")][1:]

    def age(self, *tasks: str) -> None:
        """Let it be long ago that these tasks ended."""
        long_ago = 1_600_000_000
        with closing(sqlite3.connect(self.project.agent / "queue.db")) as store, store:
            for task in tasks:
                store.execute("UPDATE tasks SET completed_at = 1 WHERE id = ?", (task,))
        for task in tasks:
            os.utime(self.project.agent / "artifacts" / task, (long_ago, long_ago))
            tree = self.git("rev-parse", f"acode/{task}^{{tree}}").strip()
            date = {"GIT_COMMITTER_DATE": f"{long_ago} +0000", "PATH": os.environ["PATH"]}
            identity = ("-c", "user.name=n", "-c", "user.email=e")
            made = subprocess.run(
                ["git", *identity, "commit-tree", "-m", "old", tree],
                cwd=self.root,
                env=date,
                capture_output=True,
                text=True,
                check=True,
            )
            self.git("update-ref", f"refs/heads/acode/{task}", made.stdout.strip())

    def saved(self) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname)", "refs/acode/saved").split()


@pytest.fixture
def repository(pool_project: PoolProject) -> Repository:
    return Repository(pool_project)


def changes_of(project: PoolProject, task: str) -> str:
    return Path(project.show(task)["patch"]).read_text()


@pytest.mark.req("027a-FR-008", "027a-FR-031", "027a-FR-032", "027a-FR-033", "027a-FR-057")
@pytest.mark.req("027a-AC-004", "027-FR-037")
def test_a_task_works_in_a_tree_of_its_own_and_leaves_a_branch(
    pool_project: PoolProject, repository: Repository
) -> None:
    before = repository.fingerprint()
    pool_project.start()
    title = ("--title", "Change the code")
    task = pool_project.add("pwd; cat src/code.py; echo new > file; rm README; git status", *title)
    assert pool_project.wait(task).code == 0, pool_project.show(task)
    shown = pool_project.show(task)
    assert shown["branch"] == f"acode/{task}"
    where, code = pool_project.output(task).splitlines()[:2]
    assert where.startswith(str(pool_project.agent / "worktrees"))
    assert code == "print('hello')"  # what is committed, not what the user is at
    assert repository.show(f"acode/{task}", "file") == "new\n"
    log = repository.git("log", "-1", "--format=%an|%s|%b|%P", f"acode/{task}")
    assert log.startswith("acode|Change the code|")
    assert task in log
    assert log.strip().endswith(before["main"].strip())
    names = repository.git("diff", "--name-status", "main", f"acode/{task}").split()
    assert names == ["D", "README", "A", "file"]
    patch = changes_of(pool_project, task)
    assert "+new" in patch
    assert repository.fingerprint() == before
    assert not repository.hooked.exists()


@pytest.mark.req("027a-FR-009")
def test_a_tree_is_made_when_the_work_starts(
    pool_project: PoolProject, repository: Repository
) -> None:
    pool_project.start(count=1)
    pool_project.run("queue", "pause")
    task = pool_project.add(f"touch {pool_project.agent}/begun; sleep 1000")
    assert not repository.trees()
    pool_project.run("queue", "resume")
    eventually((pool_project.agent / "begun").exists)
    (tree,) = repository.trees()
    assert task in tree
    pool_project.run("task", "cancel", task)


def test_a_task_that_changed_nothing_leaves_no_branch(
    pool_project: PoolProject, repository: Repository
) -> None:
    pool_project.start()
    task = pool_project.add("cat README")
    assert pool_project.wait(task).code == 0
    shown = pool_project.show(task)
    assert (shown["branch"], shown["patch"]) == (None, None)
    assert repository.git("branch", "--list", "acode/*") == ""


@pytest.mark.parametrize("way", ["failed", "timeout", "cancelled"])
def test_after_a_failure_only_the_patch_is_kept(
    pool_project: PoolProject, repository: Repository, way: str
) -> None:
    pool_project.start()
    marker = pool_project.agent / "changed"
    change = f"echo half > file; touch {marker}"
    if way == "failed":
        task = pool_project.add(f"{change}; exit 1")
    elif way == "timeout":
        task = pool_project.add(f"{change}; sleep 1000", "--timeout", "8", "--retries", "0")
    else:
        task = pool_project.add(f"{change}; sleep 1000")
        eventually(marker.exists)
        pool_project.run("task", "cancel", task)
    pool_project.wait(task)
    assert pool_project.show(task)["branch"] is None
    assert "+half" in changes_of(pool_project, task)
    assert repository.git("branch", "--list", "acode/*") == ""


@pytest.mark.req("027a-FR-010")
def test_eight_tasks_change_the_same_file_at_once(
    pool_project: PoolProject, repository: Repository
) -> None:
    pool_project.start(count=8)
    go = pool_project.agent / "go"
    wait = f"while [ ! -e {go} ]; do sleep 0.02; done"
    tasks = [
        pool_project.add(f"pwd; echo {n} > README; {wait}; test $(cat README) = {n}")
        for n in range(8)
    ]
    eventually(lambda: pool_project.pool()["busyCount"] == 8)
    go.touch()
    assert pool_project.wait(*tasks).code == 0
    written = [repository.show(f"acode/{task}", "README") for task in tasks]
    assert written == [f"{n}\n" for n in range(8)]
    assert len({pool_project.output(task) for task in tasks}) == 8


@pytest.mark.req("027a-FR-034", "027a-AC-005", "027-FR-074")
def test_trees_are_gone_when_the_pool_is(pool_project: PoolProject, repository: Repository) -> None:
    pool_project.start()
    tasks = [pool_project.add(f"echo {n} > file{n}") for n in range(4)]
    assert pool_project.wait(*tasks).code == 0
    pool_project.stop()
    assert repository.trees() == []
    assert repository.git("stash", "list") == ""


def test_a_task_that_commits_by_itself_keeps_its_commits(
    pool_project: PoolProject, repository: Repository
) -> None:
    before = repository.fingerprint()
    pool_project.start()
    identity = "git -c user.name=A -c user.email=a@b"
    task = pool_project.add(
        f"echo one > one; git add -A; {identity} commit -qm mine; echo two > two"
    )
    assert pool_project.wait(task).code == 0, pool_project.show(task)
    subjects = repository.git("log", "--format=%s", f"main..acode/{task}").splitlines()
    assert subjects[1] == "mine"
    assert repository.show(f"acode/{task}", "two") == "two\n"
    assert repository.fingerprint() == before


def test_without_a_repository_no_base_can_be_chosen(pool_project: PoolProject) -> None:
    pool_project.start(count=1)
    task = pool_project.add("true", "--base", "main")
    assert pool_project.wait(task).code == 1
    error = pool_project.show(task)["error"]
    assert error["code"] == "INVALID_TASK"
    assert "is in no git repository" in error["message"]


def test_another_base_can_be_chosen(pool_project: PoolProject, repository: Repository) -> None:
    first = repository.git("rev-parse", "main").strip()
    repository.git("commit", "-qam", "second")
    pool_project.start()
    task = pool_project.add("git rev-parse HEAD", "--base", first)
    wrong = pool_project.add("true", "--base", "no-such-branch")
    pool_project.wait(task, wrong)
    assert pool_project.output(task) == first
    error = pool_project.show(wrong)["error"]
    assert error["code"] == "INVALID_TASK"
    assert "no-such-branch" in error["message"]
    assert error["hint"]


def test_an_explicit_worktree_outside_a_repository_is_refused(pool_project: PoolProject) -> None:
    pool_project.start()
    task = pool_project.add("true", "--workspace", "worktree")
    pool_project.wait(task)
    assert pool_project.show(task)["error"]["code"] == "INVALID_TASK"


def test_a_repository_without_a_commit_gives_scratch_directories(
    pool_project: PoolProject,
) -> None:
    subprocess.run(["git", "init", "-q"], cwd=pool_project.root, check=True)
    pool_project.start()
    task = pool_project.add("ls -A; echo x > x")
    assert pool_project.wait(task).code == 0
    assert pool_project.output(task) == ""
    assert pool_project.show(task)["branch"] is None


def test_a_killed_worker_loses_no_work(pool_project: PoolProject, repository: Repository) -> None:
    pool_project.configure(
        retry={"initialDelayMs": 10}, workers={"process": {"restartDelayMs": 10}}
    )
    pool_project.start(count=1)
    marker = pool_project.agent / "changed"
    task = pool_project.add(
        f"[ -e {marker} ] && exit 0; echo precious > work; touch {marker}; sleep 1000"
    )
    eventually(marker.exists)
    psutil.Process(pool_project.workers()[0]["pid"]).kill()
    assert pool_project.wait(task).code == 0
    eventually(lambda: repository.saved())
    assert repository.show(repository.saved()[0], "work") == "precious\n"
    pool_project.stop()
    assert repository.trees() == []


def test_what_died_with_the_daemon_is_saved_by_the_next(
    pool_project: PoolProject, repository: Repository
) -> None:
    pool_project.start(count=1)
    marker = pool_project.agent / "changed"
    task = pool_project.add(
        f"[ -e {marker} ] && exit 0; echo precious > work; touch {marker}; sleep 1000"
    )
    eventually(marker.exists)
    worker = psutil.Process(pool_project.workers()[0]["pid"])
    pool_project.kill_hard()
    worker.kill()
    pool_project.start(count=1)
    eventually(lambda: repository.saved())
    assert repository.show(repository.saved()[0], "work") == "precious\n"
    assert pool_project.wait(task).code == 0


def test_an_interrupted_task_loses_no_work(
    pool_project: PoolProject, repository: Repository
) -> None:
    pool_project.start(count=1)
    marker = pool_project.agent / "changed"
    task = pool_project.add(
        f"[ -e {marker} ] && exit 0; echo precious > work; touch {marker}; sleep 1000"
    )
    eventually(marker.exists)
    pool_project.stop("--force")
    assert pool_project.status(task) == "pending"
    eventually(lambda: repository.saved())
    assert repository.show(repository.saved()[0], "work") == "precious\n"


def test_a_project_below_the_top_level_is_worked_on_there(
    pool_project: PoolProject, repository: Repository, tmp_path: Path
) -> None:
    below = PoolProject(repository.root / "src")
    try:
        below.start(count=1)
        task = below.add("pwd; ls; echo x > added")
        assert below.wait(task).code == 0, below.show(task)
        assert below.output(task).splitlines()[1:] == ["code.py"]
        assert repository.git("diff", "--name-only", "main", f"acode/{task}") == "src/added\n"
    finally:
        below.close()


@pytest.mark.req("027-FR-075")
def test_trees_are_kept_on_request(pool_project: PoolProject, repository: Repository) -> None:
    pool_project.keeps_workspaces = True
    pool_project.start("--keep-worktrees", count=1)
    task = pool_project.add("pwd; echo x > left")
    assert pool_project.wait(task).code == 0
    pool_project.stop()
    assert (Path(pool_project.output(task)) / "left").read_text() == "x\n"


def test_old_branches_and_results_are_put_away(
    pool_project: PoolProject, repository: Repository
) -> None:
    pool_project.start(count=1)
    old, new, used = (pool_project.add(f"echo {name} > file") for name in ("old", "new", "used"))
    assert pool_project.wait(old, new, used).code == 0
    pool_project.stop()
    repository.git("worktree", "add", "-q", str(pool_project.root.parent / "look"), f"acode/{used}")
    repository.age(old, used)
    pool_project.configure(results={"keepBranchDays": 1, "keepArtifactDays": 1})
    pool_project.start(count=1)
    eventually(lambda: not (pool_project.agent / "artifacts" / old).exists())
    branches = repository.git("branch", "--list", "acode/*", "--format=%(refname:short)").split()
    assert sorted(branches) == sorted([f"acode/{new}", f"acode/{used}"])
    assert (pool_project.agent / "artifacts" / new / "changes.patch").exists()
    eventually(lambda: "put away" in pool_project.daemon_log())
