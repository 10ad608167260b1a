"""Start-up is a feature: commands import only what they use."""

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
from acode.cli.main import main
code = main(sys.argv[1:])
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
