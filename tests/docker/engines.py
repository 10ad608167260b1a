"""The engines that tests run on: one of each kind for all processes of a test run."""

import fcntl
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from acode.clock import Deadline
from acode.errors import DockerUnavailable
from acode.runner.container.discovery import Engine, probe

START_SECONDS = 60.0
ROOT = Path(__file__).parents[2]


def run_pid() -> int:
    """The process that this test run ends with."""
    return os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()


def home(name: str) -> Path:
    """A short path on a disk: sockets and layers both need that."""
    return Path("/tmp") / f"acode-{name}-{run_pid()}"


class TestEngine:
    """A running engine of our own."""

    __test__ = False

    def __init__(self, name: str, label: str = "") -> None:
        self.name = name
        self.directory = home(name + label)
        self.socket = str(self.directory / "engine.sock")

    @property
    def host(self) -> str:
        return f"unix://{self.socket}"

    @property
    def pid(self) -> int:
        """The engine's own process, whose namespaces are its world."""
        return int((self.directory / "engine.pid").read_text())

    def start(self) -> "TestEngine":
        """Start it, unless another process of this run has."""
        self.directory.mkdir(exist_ok=True)
        with self.alone():
            if not (self.directory / "guardian.pid").exists():
                self._spawn()
            self.wait()
        return self

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No other process of this run does anything to the engine meanwhile."""
        with (self.directory / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _spawn(self) -> None:
        watched = str(run_pid())
        module = ("-m", "tests.docker.guardian", self.name, str(self.directory), watched)
        subprocess.run(
            ["unshare", "--mount", "--net", "--propagation", "slave", sys.executable, *module],
            cwd=ROOT,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def wait(self) -> Engine:
        """Until it answers."""
        deadline = Deadline(START_SECONDS)
        while (found := self._look()) is None:
            assert deadline.rest(0.05), (self.directory / "log").read_text()
        return found

    def _look(self) -> Engine | None:
        try:
            return probe(self.socket)
        except DockerUnavailable:
            return None

    def restart(self) -> None:
        """As an upgrade of the machine would."""
        before = self.pid
        os.kill(self.guardian, signal.SIGUSR1)
        deadline = Deadline(START_SECONDS)
        while self.pid == before:
            assert deadline.rest(0.05)
        self.wait()

    @property
    def guardian(self) -> int:
        return int((self.directory / "guardian.pid").read_text())

    def inside(self, *command: str) -> list[str]:
        """A command that sees the network as the engine does."""
        return ["nsenter", f"--net=/proc/{self.guardian}/ns/net", *command]

    def stop(self) -> None:
        """End it, and wait until nothing is left of it."""
        with suppress(FileNotFoundError, ProcessLookupError):
            descriptor = os.pidfd_open(self.guardian)
            os.kill(self.guardian, signal.SIGTERM)
            select.select([descriptor], [], [], START_SECONDS)
            os.close(descriptor)


def stop_all() -> None:
    """End what this run has started for all its tests."""
    for name in ("docker", "podman"):
        TestEngine(name).stop()
