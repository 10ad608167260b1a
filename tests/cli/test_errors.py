"""Everything that can be typed wrongly gives a code, a hint and the right exit code."""

import io
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acode.cli.main import main
from tests.cli.conftest import ACODE, Project, problem_of

USAGE = [
    "nonsense",
    "task",
    "task nonsense",
    "dlq",
    "queue nonsense",
    "--nonsense",
    "task list --nonsense",
    "task list extra",
    "task list --status lost",
    "task list --priority urgent",
    "task list --sort size",
    "task list --limit 0",
    "task list --limit many",
    "task list --limit 99999999999999999999",
    "task list --offset -1",
    "task list --lim 3",
    "task show",
    "task show a b",
    "task wait",
    "task wait 01J --timeout soon",
    "task wait 01J --timeout nan",
    "task wait 01J --timeout -1",
    "task cancel",
    "task retry",
    "task retry a b",
    "task why",
    "task add",
    "task add --",
    "task add echo hi",
    "task add --priority urgent -- true",
    "task add --type poem -- true",
    "task add --timeout soon -- true",
    "task add --timeout -1 -- true",
    "task add --retries -1 -- true",
    "task add --retries 1.5 -- true",
    "task add --env NOVALUE -- true",
    "task add --meta NOVALUE -- true",
    "task add --mode vm -- true",
    "task add --workspace moon -- true",
    "task add --delay never -- true",
    "task add --memory-mb lots -- true",
    "task add --cwd ../.. -- true",
    "task add tasks.txt -- true",
    "dlq drop --all 01J",
    "queue backup",
    "queue status extra",
    "completion",
    "completion powershell",
    "init extra",
    "--project",
    "--config",
]


@pytest.mark.parametrize("line", USAGE)
def test_a_wrong_command_line_exits_2(project: Project, line: str) -> None:
    (project.root / "tasks.txt").write_text("true\n")
    done = project.run(*line.split())
    problem_of(done, 2, "USAGE")
    assert len(done.err.splitlines()) == 2
    assert done.out == ""


REFUSED = {
    "task show 01J": "TASK-001",
    "task show nö": "TASK-001",
    "task why 01J": "TASK-001",
    "task cancel 01J": "TASK-001",
    "task retry 01J": "TASK-001",
    "task wait 01J": "TASK-001",
    "dlq show 01J": "TASK-001",
    "dlq retry 01J": "TASK-001",
    "dlq drop 01J": "TASK-001",
    "task add missing.yml": "FILE-002",
    "task add .": "FILE-002",
    "task add empty.yml": "INVALID_TASK",
    "task add binary.yml": "INVALID_TASK",
    "task add --after 01J -- true": "TASK-001",
    "queue backup nowhere/copy.db": "QUEUE-006",
}


@pytest.mark.parametrize("line", REFUSED)
def test_a_refused_request_exits_1(project: Project, line: str) -> None:
    (project.root / "empty.yml").write_text("")
    (project.root / "binary.yml").write_bytes(b"\x00\x01\xff")
    problem_of(project.run(*line.split()), 1, REFUSED[line])


def test_a_wrong_setting_stops_every_command(project: Project) -> None:
    (project.root / ".agent" / "config.yml").write_text("tasks:\n  timeoutSeconds: soon\n")
    project.database.touch()
    for line in ("task list --json", "task add -- true", "queue status"):
        done = project.run(*line.split())
        problem_of(done, 2, "CONFIG")
        assert "config.yml" in done.err
        assert "soon" in done.err


def test_a_wrong_variable_stops_the_command(project: Project) -> None:
    project.env["ACODE_TASKS__QUEUESIZE"] = "none"
    problem_of(project.run("task", "add", "--", "true"), 2, "CONFIG")


def test_a_missing_config_file_is_an_error(project: Project) -> None:
    problem_of(project.run("task", "add", "--config", "no.yml", "--", "true"), 2, "CONFIG")


def test_a_missing_project_is_an_error(project: Project) -> None:
    done = project.run("task", "list", "--project", "no/where")
    problem_of(done, 2, "USAGE")


def test_an_argument_that_is_no_text_is_refused(project: Project) -> None:
    done = subprocess.run(
        [ACODE.encode(), b"task", b"list", b"--workstream", b"\xff"],
        cwd=project.root,
        env=project.env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("acode: USAGE: ")


def test_a_directory_that_is_gone_is_no_bug(project: Project) -> None:
    gone = project.root / "gone"
    script = f"mkdir {gone}; cd {gone}; rmdir {gone}; exec {ACODE} task list"
    done = subprocess.run(
        ["/bin/sh", "-c", script], env=project.env, capture_output=True, text=True
    )
    assert done.returncode in (1, 2)
    assert done.stderr.startswith("acode: ")
    assert "INTERNAL" not in done.stderr


def test_a_project_that_cannot_be_written_is_no_bug(tmp_path: Path) -> None:
    (tmp_path / ".agent").write_text("a file where a directory belongs")
    project = Project(tmp_path)
    for words in (["task", "add", "--", "true"], ["queue", "pause"], ["init"]):
        done = project.run(*words)
        assert done.code in (1, 2)
        assert done.err.startswith("acode: PROJECT"), done.err


def shell(project: Project, line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/bash", "-c", line.replace("acode", ACODE)],
        cwd=project.root,
        env=project.env,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_reader_that_leaves_is_no_error_to_talk_about(project: Project) -> None:
    (project.root / "many.txt").write_text("true\n" * 3000)
    project.run("task", "add", "many.txt")
    done = shell(project, "acode task list --limit 3000 --json | head -c 10")
    assert done.stderr == ""
    done = shell(project, "acode task nonsense 2>&1 | true; exit ${PIPESTATUS[0]}")
    assert (done.returncode, done.stderr) == (2, "")


def test_closed_streams_are_survived(project: Project) -> None:
    task = project.add("--", "true")
    assert shell(project, f"acode task show {task} >&-").returncode == 0
    assert shell(project, f"acode task show {task} <&- 2>&-").returncode == 0
    assert shell(project, "acode task show nonsense 2>&-").returncode == 1


def test_a_full_disk_behind_stdout_is_said(project: Project) -> None:
    project.add("--", "true")
    done = shell(project, "acode task list --json > /dev/full")
    assert done.returncode == 1
    assert done.stderr.startswith("acode: SYSTEM: No space left on device")
    assert len(done.stderr.splitlines()) == 2


def test_a_bug_is_one_line_and_a_traceback_only_on_request(project: Project) -> None:
    project.add("--", "true")
    broken = project.root / "broken"
    broken.mkdir()
    (broken / "sitecustomize.py").write_text(
        "import acode.store.sqlite as s\n"
        "def boom(self):\n    raise KeyError('two\\nlines')\n"
        "s.SqliteStore.counts = boom\n"
    )
    project.env["PYTHONPATH"] = str(broken)
    done = project.run("queue", "status")
    problem_of(done, 1, "INTERNAL")
    assert len(done.err.splitlines()) == 2
    project.env["ACODE_DEBUG"] = "1"
    assert "Traceback" in project.run("queue", "status").err


WORDS = """
task dlq queue init completion add list show wait cancel retry why drop pause resume status check
recover --json --quiet --all --status pending failed --limit 1 0 --offset --after 01J -1 -- - --env
A=1 --timeout 0 --sort --help -h --version --key --dry-run x.yml --reverse
"""


@given(st.lists(st.sampled_from(WORDS.split()) | st.text(max_size=8), max_size=7))
def test_no_words_make_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, words: list[str]
) -> None:
    place = str(_place(tmp_path_factory))
    out, err = Captured(), Captured()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["--project", place, *(word.replace("\0", "") for word in words)])
    assert code in (0, 1, 2)
    assert "Traceback" not in err.text
    assert "INTERNAL" not in err.text
    assert code == 0 or err.text.startswith(("acode: ", "no ")), err.text


def _place(factory: pytest.TempPathFactory) -> Path:
    place = factory.getbasetemp() / "fuzzed"
    (place / ".agent").mkdir(parents=True, exist_ok=True)
    return place


class Captured(io.TextIOWrapper):
    """A stream like the real ones: encoded, and not a terminal."""

    def __init__(self) -> None:
        self.bytes = io.BytesIO()
        super().__init__(self.bytes, encoding="utf-8", write_through=True)

    @property
    def text(self) -> str:
        return self.bytes.getvalue().decode()
