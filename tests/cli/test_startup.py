"""Start-up is a feature: commands import only what they use."""

import signal
import subprocess
import sys

import pytest

from tests.cli.conftest import Project

HEAVY = {
    "asyncio",
    "argcomplete",
    "concurrent.futures",
    "dataclasses",
    "difflib",
    "inspect",
    "logging",
    "multiprocessing",
    "psutil",
    "rich",
    "shutil",
    "socket",
    "subprocess",
    "tempfile",
    "typing_extensions",
    "yaml",
}

PROBE = """
import sys
from acode.cli import enter
code = enter()
sys.stderr.write("\\n".join(sys.modules))
sys.exit(code)
"""


@pytest.mark.parametrize(
    "line",
    [
        "task add --title x --env A=1 -- true",
        "task list",
        "task list --json",
        "task show {task}",
        "task show {task} --json",
        "queue status",
        "queue status --json",
    ],
)
def test_a_quick_command_imports_nothing_heavy(project: Project, line: str) -> None:
    task = project.add("--", "true")
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *line.format(task=task).split()],
        cwd=project.root,
        env=project.env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert HEAVY & set(done.stderr.split()) == set()


INTERRUPTED_WHILE_IT_LOADS = """
import importlib.abc, os, signal, sys

class Interrupter(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "msgspec":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupter())
from acode.cli import enter
sys.exit(enter())
"""


def test_an_interrupt_while_a_command_is_loaded_ends_it_without_a_word(project: Project) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_WHILE_IT_LOADS, "task", "list"],
        cwd=project.root,
        env=project.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
