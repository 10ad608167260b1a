"""Scripts and Python functions: what runs is what the workspace holds."""

import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import ACODE, problem_of
from tests.cli.test_terminal import Terminal
from tests.pool.conftest import PoolProject
from tests.pool.test_worktrees import Repository

FUNCTIONS = """
import asyncio, os, sys

class TransientError(Exception):
    pass

def add(a, b=0, *, scale=1):
    print("adding")
    return {"sum": (a + b) * scale, "where": os.getcwd()}

def echo(*values, **named):
    return [list(values), named]

async def later(value):
    await asyncio.sleep(0)
    return value

def loud(value):
    sys.stdout.write("no end of line")
    return value

def boom(): raise ValueError("too bad")
def wobbly(): raise TransientError("try again")
def strange(): return object()
def huge(): return "x" * 2_000_000
def leave(): sys.exit(3)
number = 7
"""


@pytest.fixture
def project(pool_project: PoolProject) -> PoolProject:
    """A pool beside a module of functions."""
    (pool_project.root / "jobs.py").write_text(FUNCTIONS, encoding="utf-8")
    pool_project.configure(retry={"initialDelayMs": 1})
    pool_project.start(count=1)
    return pool_project


def call(project: PoolProject, *words: str, flags: tuple[str, ...] = ()) -> str:
    task = project.cli.add("--type", "python", *flags, "--", *words)
    project.wait(task)
    return task


def test_a_function_is_called_and_its_value_is_kept(project: PoolProject) -> None:
    task = call(project, "jobs:add", "3", "4", '{"scale": 2}')
    shown = project.show(task)
    assert shown["status"] == "completed"
    assert shown["value"]["sum"] == 14
    assert project.output(task) == "adding"
    assert '"sum":14' in project.run("task", "show", task).out


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (("jobs:echo",), [[], {}]),
        (("jobs:echo", "text", "1.5", "null", "[1]"), [["text", 1.5, None, [1]], {}]),
        (("jobs:echo", '{"a": 1}', "{}"), [[{"a": 1}], {}]),
        (("jobs:echo", '"12"', "-x", "--flag"), [["12", "-x", "--flag"], {}]),
        (("jobs:later", "true"), True),
        (("jobs:loud", "5"), 5),
        (("os.path:basename", "/a/b"), "b"),
    ],
)
def test_arguments_are_json_or_text(
    project: PoolProject, words: tuple[str, ...], value: object
) -> None:
    task = call(project, *words)
    assert project.show(task)["value"] == value
    assert "\x1e" not in project.output(task)


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("boom", "EXIT_CODE", "the function raised ValueError: too bad"),
        ("strange", "EXIT_CODE", "not JSON serializable"),
        ("huge", "EXIT_CODE", "more than 1 MB of JSON"),
        ("add", "EXIT_CODE", "missing 1 required positional argument"),
        ("nothing", "INVALID_TASK", "has no attribute 'nothing'"),
        ("number", "INVALID_TASK", "is no function"),
        ("leave", "EXIT_CODE", "exit code 3"),
    ],
)
def test_what_a_function_raises_is_the_failure(
    project: PoolProject, name: str, code: str, words: str
) -> None:
    error = project.show(call(project, f"jobs:{name}"))["error"]
    assert error["code"] == code
    assert words in error["message"]


def test_a_transient_error_is_tried_again(project: PoolProject) -> None:
    task = call(project, "jobs:wobbly", flags=("--retries", "1"))
    shown = project.show(task)
    assert shown["attemptCount"] == 2
    assert shown["error"]["category"] == "transient"


def test_what_is_no_function_is_refused(project: PoolProject) -> None:
    done = project.run("task", "add", "--type", "python", "--", "make")
    assert "module:function" in problem_of(done, 2, "USAGE")


def test_the_projects_own_python_runs_it(project: PoolProject) -> None:
    python = project.root / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\nMINE=yes exec python3 "$@"\n')
    python.chmod(0o755)
    task = call(project, "os:getenv", "MINE")
    assert project.show(task)["value"] == "yes"


# In a repository.


@pytest.fixture
def repository(pool_project: PoolProject) -> Repository:
    return Repository(pool_project)


def commit(repository: Repository, name: str, text: str, *, mode: int = 0o644) -> None:
    repository.write(name, text)
    (repository.root / name).chmod(mode)
    repository.git("add", name)
    repository.git("commit", "-qm", name, "--", name)


@pytest.mark.req("forge-12")
@pytest.mark.parametrize("mode", [0o755, 0o644])
def test_a_script_is_that_of_the_commit_and_runs_by_its_first_line(
    repository: Repository, mode: int
) -> None:
    project = repository.project
    body = "#!/usr/bin/env python3\nimport os, sys\nprint('{}', sys.argv[1:], os.getcwd())\n"
    commit(repository, "tools/say.py", body.format("committed"), mode=mode)
    repository.write("tools/say.py", body.format("being edited"))
    project.start(count=1)
    task = project.cli.add("--type", "script", "--", "tools/say.py", "a b", "$c")
    assert project.wait(task).code == 0
    said = project.output(task)
    assert said.startswith("committed ['a b', '$c'] ")
    assert str(project.agent / "worktrees") in said


def test_a_script_without_a_first_line_is_for_the_shell(repository: Repository) -> None:
    commit(repository, "plain", 'echo "plain $1"\n')
    repository.project.start(count=1)
    task = repository.project.cli.add("--type", "script", "--", "plain", "x")
    assert repository.project.wait(task).code == 0
    assert repository.project.output(task) == "plain x"


def test_a_script_that_is_not_committed_is_not_there(repository: Repository) -> None:
    project = repository.project
    repository.write("new.sh", "echo new\n")
    project.start(count=1)
    task = project.cli.add("--type", "script", "--", "new.sh")
    project.wait(task)
    assert project.show(task)["exitCode"] == 127
    assert "is it committed?" in project.run("task", "logs", task).out
    scratch = project.cli.add("--type", "script", "--workspace", "scratch", "--", "new.sh")
    assert project.wait(scratch).code == 0


def test_a_function_is_that_of_the_commit(repository: Repository) -> None:
    project = repository.project
    commit(repository, "src/work.py", "def which(): return 'committed'\n")
    repository.write("src/work.py", "def which(): return 'being edited'\n")
    project.start(count=1)
    task = call(project, "work:which")
    assert project.show(task)["value"] == "committed"
    here = call(project, "work:which", flags=("--workspace", "project"))
    assert project.show(here)["value"] == "being edited"


# What tasks changed.


def test_the_difference_is_printed_byte_for_byte(repository: Repository) -> None:
    project = repository.project
    project.start(count=1)
    task = project.add("printf 'caf\\351\\n' > new; printf '\\000\\001' > raw; rm README")
    assert project.wait(task).code == 0
    patch = project.run("task", "diff", task, "--json").json["patch"]
    assert "deleted file mode" in patch
    printed = subprocess.run(
        [ACODE, "task", "diff", task],
        cwd=project.root,
        env=project.env,
        capture_output=True,
        check=True,
    )
    assert printed.stdout == Path(project.show(task)["patch"]).read_bytes()
    assert b"caf\xe9" in printed.stdout


def test_a_task_that_changed_nothing_has_no_difference(repository: Repository) -> None:
    project = repository.project
    project.start(count=1)
    task = project.add("true")
    project.wait(task)
    done = project.run("task", "diff", task)
    assert (done.code, done.out) == (0, "")
    assert "changed no files" in done.err


def test_a_task_that_is_not_finished_has_no_difference_yet(project: PoolProject) -> None:
    task = project.hold("one")
    assert "no result yet" in problem_of(project.run("task", "diff", task), 1, "TASK-003")
    project.let_go("one")


def test_work_of_a_failed_attempt_is_brought_back(repository: Repository) -> None:
    project = repository.project
    project.start(count=1)
    task = project.add("echo precious > work; exit 1")
    project.wait(task)
    assert project.show(task)["branch"] is None
    assert "\n+precious\n" in project.run("task", "diff", task).out
    assert "\x1b[32m+precious\x1b[0m" in Terminal(project.cli, "task", "diff", task).finish()
    before = repository.fingerprint()
    done = project.run("task", "restore", task)
    assert done.code == 0, done
    branch = done.out.strip()
    assert repository.show(branch, "work") == "precious\n"
    assert repository.fingerprint() == before
    assert project.ask("task", "restore", task) == {"id": task, "branch": branch}


def test_what_was_not_saved_cannot_be_brought_back(repository: Repository) -> None:
    project = repository.project
    project.start(count=1)
    task = project.add("true")
    project.wait(task)
    problem_of(project.run("task", "restore", task), 1, "WORKSPACE-001")
