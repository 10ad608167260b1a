"""A pool of somebody who has no rights beyond their own files."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import files, requires
from pathlib import Path

import psutil
import pytest

from acode.engine.lock import holder

pytestmark = pytest.mark.needs("root", "git")

SOMEBODY = 12_345
SOURCE = Path(__file__).parents[2] / "src"


def installed_in(place: Path) -> Path:
    """acode and what it needs, in reach of everybody: the checkout may be in root's home."""
    shutil.copytree(SOURCE / "acode", place / "acode")
    for name in needs_of("acode"):
        for file in files(name) or ():
            if ".." not in file.parts:
                target = place / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file.locate(), target)
    return place


def needs_of(name: str) -> set[str]:
    """The distributions that one needs without any extra, and those that they need."""
    wanted = [re.split(r"[^\w.-]", line)[0] for line in requires(name) or () if ";" not in line]
    return {*wanted, *(below for one in wanted for below in needs_of(one))}


class Somebody:
    """A user with a home directory and a project in it."""

    def __init__(self, home: Path) -> None:
        self.project = home / "project"
        self.project.mkdir()
        for path in (home, self.project):
            os.chown(path, SOMEBODY, SOMEBODY)
        self._env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "PYTHONPATH": str(installed_in(home / "packages")),
            "ACODE_API__ENABLED": "false",
        }
        self._python = next(filter(self._may_run, (sys.executable, "/usr/bin/python3")), "")
        assert self._python, "no Python that other users may run"

    def _may_run(self, python: str) -> bool:
        try:
            return self.run(python, "-c", "import acode.cli.main")[0] == 0
        except PermissionError:
            return False

    def run(self, *words: str) -> tuple[int, str]:
        done = subprocess.run(
            words, cwd=self.project, env=self._env, user=SOMEBODY, group=SOMEBODY, extra_groups=[],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def acode(self, *words: str) -> str:
        call = "import sys; from acode.cli import enter; sys.exit(enter())"
        code, said = self.run(self._python, "-P", "-c", call, *words)
        assert code == 0, said
        return said


@pytest.fixture
def somebody() -> Iterator[Somebody]:
    home = Path(tempfile.mkdtemp(prefix="acode-test-"))
    user = Somebody(home)
    yield user
    user.acode("worker", "stop", "--force")
    shutil.rmtree(home)


@pytest.mark.req("027a-NFR-010")
def test_a_pool_needs_no_rights(somebody: Somebody) -> None:
    for words in (
        ("init", "-q", "-b", "main"),
        (
            "-c",
            "user.name=S",
            "-c",
            "user.email=s@example.org",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "first",
        ),
    ):
        assert somebody.run("git", *words)[0] == 0
    somebody.acode("worker", "start", "--count", "2")
    daemon = holder(str(somebody.project / ".agent" / "run" / "daemon.lock"))
    assert daemon is not None
    everybody = [psutil.Process(daemon.pid), *psutil.Process(daemon.pid).children(recursive=True)]
    for process in everybody:
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
        assert f"Uid:\t{SOMEBODY}\t{SOMEBODY}" in status
        assert "CapEff:\t0000000000000000" in status
    tasks = [
        somebody.acode("task", "add", *flags, "--", "echo mine > mine; cat mine").strip()
        for flags in ((), ("--workspace", "scratch"))
    ]
    somebody.acode("task", "wait", *tasks)
    shown = json.loads(somebody.acode("task", "show", tasks[0], "--json"))
    assert somebody.run("git", "show", f"{shown['branch']}:mine") == (0, "mine\n")
    somebody.acode("worker", "stop")
    assert not psutil.wait_procs(everybody, timeout=30)[1]
