"""Pools of every kind, the handlers that tests share, and programs that embed acode."""

import asyncio
import os
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

import acode
from acode.clock import Deadline

PATIENCE = 60.0
"""Far beyond what anything takes; a busy machine is not a bug."""

QUICK = acode.Retry(initial_delay_ms=1, max_delay_ms=1, jitter=0)
"""Retries that nobody waits for."""


NEVER_OPEN = acode.Breaker(failure_threshold=1_000_000)


async def until(condition: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Wait until something holds, and give it back."""
    deadline = Deadline(seconds)
    while not (found := condition()):
        assert deadline.left() > 0, "it never came true"
        await asyncio.sleep(0.005)
    return found


class Kind(NamedTuple):
    """One way to run a pool."""

    isolation: str
    durable: bool


KINDS = [Kind(i, d) for i in ("inline", "process") for d in (False, True)]


class Bench:
    """Makes pools of one kind, and a place where handlers of any process leave traces."""

    def __init__(self, kind: Kind, place: Path) -> None:
        self.kind = kind
        self.place = place
        self.url = f"sqlite:///{place}/queue.db" if kind.durable else "memory"

    @asynccontextmanager
    async def pool(self, **options: Any) -> AsyncIterator[acode.Pool]:
        chosen: dict[str, Any] = {"store": self.url, "isolation": self.kind.isolation}
        chosen |= {"retry": QUICK, "breaker": NEVER_OPEN, **options}
        async with acode.Pool(**chosen) as pool:
            yield pool

    def path(self, name: str) -> str:
        """A file that does not exist yet."""
        return str(self.place / name)

    def lines(self, name: str) -> list[str]:
        """What handlers have written there."""
        try:
            return (self.place / name).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []


@pytest.fixture(
    params=KINDS, ids=lambda kind: f"{kind.isolation}-{(kind.durable and 'sqlite') or 'memory'}"
)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    """Every way to run a pool."""
    return Bench(request.param, tmp_path)


@pytest.fixture(params=["inline", "process"])
def in_memory(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    """Both isolations, nothing durable."""
    return Bench(Kind(request.param, durable=False), tmp_path)


@pytest.fixture(params=["inline", "process"])
def on_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    """Both isolations with SQLite."""
    return Bench(Kind(request.param, durable=True), tmp_path)


@pytest.fixture
def inline(tmp_path: Path) -> Bench:
    """Inline and in memory, the defaults."""
    return Bench(Kind("inline", durable=False), tmp_path)


@pytest.fixture
def process(tmp_path: Path) -> Bench:
    """Processes, in memory."""
    return Bench(Kind("process", durable=False), tmp_path)


def note(path: str, text: str) -> None:
    """Leave a trace that other processes can see."""
    with open(path, "a", encoding="utf-8") as file:
        file.write(f"{text}\n")


class Program:
    """A program of its own that embeds acode."""

    def __init__(self, place: Path, text: str) -> None:
        self.place = place
        self.file = place / "program.py"
        self.file.write_text(textwrap.dedent(text), encoding="utf-8")
        self.process: subprocess.Popen[str] | None = None

    def start(self, *words: str) -> "subprocess.Popen[str]":
        self.process = subprocess.Popen(
            [sys.executable, str(self.file), *words],
            cwd=self.place,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        return self.process

    def run(self, *words: str) -> str:
        """Run it to its end, which must be a good one; what it printed."""
        process = self.start(*words)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
        return out

    def lines(self, name: str) -> list[str]:
        path = self.place / name
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def processes(self) -> list[psutil.Process]:
        """Everything that has this program as its command line."""
        found = []
        for process in psutil.process_iter():
            try:
                if str(self.file) in process.cmdline() and process.status() != "zombie":
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def close(self) -> None:
        for process in self.processes():
            process.kill()
        if self.process is not None:
            self.process.communicate()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Callable[[str], Program]]:
    """Makes programs; none outlives the test."""
    made: list[Program] = []

    def make(text: str) -> Program:
        made.append(Program(tmp_path, text))
        return made[-1]

    yield make
    for one in made:
        one.close()
