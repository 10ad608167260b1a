"""The project directory."""

import os
import stat
import subprocess
import sys

import pytest

from acode.errors import ProjectUnusable, UsageError
from acode.project import Project, find


def tree(tmp_path, *names):
    for name in names:
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def test_the_nearest_directory_with_agent_is_the_project(tmp_path):
    tree(tmp_path, ".agent", "a/.agent", "a/b/.git", "a/b/c")
    assert find(str(tmp_path / "a/b/c"), None, {}).root == str(tmp_path / "a")


def test_without_agent_it_is_the_top_of_the_repository(tmp_path):
    tree(tmp_path, ".git", "a/b")
    assert find(str(tmp_path / "a/b"), None, {}).root == str(tmp_path)


def test_a_git_file_counts_as_a_repository_too(tmp_path):
    tree(tmp_path, ".git", "sub/a")
    (tmp_path / "sub/.git").write_text("gitdir: elsewhere\n")
    assert find(str(tmp_path / "sub/a"), None, {}).root == str(tmp_path / "sub")


def test_otherwise_it_is_where_we_stand(tmp_path):
    tree(tmp_path, "a")
    assert find(str(tmp_path / "a"), None, {}).root == str(tmp_path / "a")


def test_an_agent_file_is_no_agent_directory(tmp_path):
    tree(tmp_path, ".agent", "a")
    (tmp_path / "a/.agent").write_text("")
    assert find(str(tmp_path / "a"), None, {}).root == str(tmp_path)


def test_the_variable_overrides_and_the_flag_overrides_both(tmp_path):
    tree(tmp_path, ".agent", "flag", "variable")
    environ = {"ACODE_PROJECT": str(tmp_path / "variable")}
    assert find(str(tmp_path), None, environ).root == str(tmp_path / "variable")
    assert find(str(tmp_path), str(tmp_path / "flag"), environ).root == str(tmp_path / "flag")


def test_an_empty_variable_says_nothing(tmp_path):
    assert find(str(tmp_path), None, {"ACODE_PROJECT": ""}).root == str(tmp_path)


@pytest.mark.parametrize(
    ("override", "environ", "name"),
    [("nowhere", {}, "--project"), (None, {"ACODE_PROJECT": "nowhere"}, "ACODE_PROJECT")],
)
def test_a_named_directory_must_exist(tmp_path, override, environ, name):
    with pytest.raises(UsageError, match=f"^{name}: 'nowhere' is no directory$"):
        find(str(tmp_path), override, environ)


def test_every_path_lies_where_the_contract_says():
    project = Project("/p")
    assert project.agent_dir == "/p/.agent"
    assert project.config_file == "/p/.agent/config.yml"
    assert project.gitignore == "/p/.agent/.gitignore"
    assert project.queue_db == "/p/.agent/queue.db"
    assert project.worktrees_dir == "/p/.agent/worktrees"
    assert project.logs_dir == "/p/.agent/logs"
    assert project.daemon_log == "/p/.agent/logs/daemon.log"
    assert project.worker_log("W") == "/p/.agent/logs/workers/worker-W.log"
    assert project.task_log("T") == "/p/.agent/logs/tasks/T.log"
    assert project.artifacts_dir("T") == "/p/.agent/artifacts/T"
    assert project.run_dir == "/p/.agent/run"
    assert project.token_file == "/p/.agent/run/token"
    assert project.governance_file == "/p/.agent/governance.json"


def test_prepare_makes_a_directory_that_git_ignores_and_others_cannot_enter(tmp_path):
    project = Project(str(tmp_path))
    project.prepare()
    assert (tmp_path / ".agent/.gitignore").read_text() == "*\n"
    assert stat.S_IMODE(os.stat(project.run_dir).st_mode) == 0o700
    assert sorted(os.listdir(project.agent_dir)) == [".gitignore", "run"]


def test_prepare_again_keeps_what_the_user_changed_and_closes_what_was_open(tmp_path):
    project = Project(str(tmp_path))
    project.prepare()
    (tmp_path / ".agent/.gitignore").write_text("*\n!config.yml\n")
    os.chmod(project.run_dir, 0o755)
    project.prepare()
    assert (tmp_path / ".agent/.gitignore").read_text() == "*\n!config.yml\n"
    assert stat.S_IMODE(os.stat(project.run_dir).st_mode) == 0o700


def test_a_project_that_cannot_be_prepared_is_an_error_with_a_name(tmp_path):
    (tmp_path / ".agent").write_text("in the way")
    with pytest.raises(ProjectUnusable, match=r"\.agent: "):
        Project(str(tmp_path)).prepare()


def test_many_processes_may_prepare_at_once(tmp_path):
    code = (
        "import sys; from acode.project import Project;"
        "sys.stdin.read(); Project(sys.argv[1]).prepare()"
    )
    ready = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE)
        for _ in range(8)
    ]
    for process in ready:
        assert process.stdin is not None
        process.stdin.close()
    assert [process.wait(30) for process in ready] == [0] * 8
    assert sorted(os.listdir(tmp_path / ".agent")) == [".gitignore", "run"]
