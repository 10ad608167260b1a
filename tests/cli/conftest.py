"""A throwaway project, the real `acode` executable, and a hand that plays the pool."""

import json
import os
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import psutil
import pytest

from acode.clock import Deadline, SystemClock
from acode.model.ending import Exited, Usage
from acode.model.failure import Category, Failure, FailureCode
from acode.model.task import Lease, Result
from acode.model.verdict import Complete, Fail, Report, Verdict
from acode.store.base import Claim
from acode.store.sqlite import SqliteStore

T = TypeVar("T")

ACODE = str(Path(sys.executable).with_name("acode"))
WORKER = "01HZZZZZZZZZZZZZZZZZZZZZZZ"
FAILURE = Failure(FailureCode.EXIT_CODE, Category.PERMANENT, "exited with 1", "read its log")


class Done(NamedTuple):
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Project:
    """A directory and everything that can be done in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.env = clean_environment()

    @property
    def database(self) -> Path:
        return self.root / ".agent" / "queue.db"

    def start(self, *args: str, **options: Any) -> subprocess.Popen[str]:
        options.setdefault("env", self.env)
        options.setdefault("cwd", self.root)
        return subprocess.Popen(
            [ACODE, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            **options,
        )

    def run(self, *args: str, text: str = "", **options: Any) -> Done:
        with self.start(*args, **options) as process:
            out, err = process.communicate(text, timeout=60)
        return Done(process.returncode, out, err)

    def ask(self, *args: str, **options: Any) -> Any:
        """The JSON answer of a command that must succeed."""
        done = self.run(*args, "--json", **options)
        assert done.code == 0, done
        return done.json

    def add(self, *args: str) -> str:
        """The id of a new task."""
        done = self.run("task", "add", *args)
        assert done.code == 0, done
        return done.out.strip()

    def status(self, task_id: str) -> Any:
        return self.ask("task", "show", task_id)["status"]

    def claim(self, count: int = 1) -> list[Lease]:
        """Begin tasks as a pool would."""
        return self._with_store("claim", Claim(count, lambda tasks: [WORKER] * len(tasks)))

    def finish(self, lease: Lease, verdict: Verdict, code: int = 0) -> None:
        """End an attempt as a pool would."""
        report = Report(
            task_id=lease.task.id,
            token=lease.token,
            ending=Exited(code),
            ended_at=SystemClock().now(),
            verdict=verdict,
            usage=Usage(cpu_seconds=0.25, max_memory_bytes=1 << 20),
        )
        self._with_store("finish", report)

    def complete(self, count: int = 1) -> None:
        for lease in self.claim(count):
            self.finish(lease, Complete(Result(exit_code=0, branch=f"acode/{lease.task.id}")))

    def fail(self, count: int = 1) -> None:
        for lease in self.claim(count):
            self.finish(lease, Fail(FAILURE, "exited with 1", Result(exit_code=1)), code=1)

    def wait_until_opened(self, process: subprocess.Popen[str]) -> None:
        """Return when a process has the store open."""
        deadline = Deadline(30)
        while str(self.database) not in _open_files(process.pid):
            assert deadline.rest(0.01), "it never opened the store"

    def _with_store(self, name: str, *args: Any) -> Any:
        store = SqliteStore.open(str(self.database), SystemClock(), grouped=False)
        try:
            return drive(getattr(store, name)(*args))
        finally:
            drive(store.close())


def _open_files(pid: int) -> list[str]:
    return [file.path for file in psutil.Process(pid).open_files()]


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        coroutine.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    raise AssertionError("it waited")


def clean_environment() -> dict[str, str]:
    """This environment, without what would change how acode behaves."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ACODE_", "PYTHON", "_ARGC", "COMP_"))
        and name not in ("NO_COLOR", "COLUMNS")
    }


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """An empty directory that is its own project."""
    (tmp_path / ".agent").mkdir()
    return Project(tmp_path)


def problem_of(done: Done, code: int, name: str) -> str:
    """The message of a command that was refused as the contract says."""
    assert done.code == code, done
    assert "Traceback" not in done.err + done.out
    first, *_, last = done.err.splitlines()
    assert first.startswith(f"acode: {name}: "), done.err
    assert last.startswith("hint: "), done.err
    return first.removeprefix(f"acode: {name}: ")
