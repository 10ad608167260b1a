"""A warm container over a throwaway project, without a pool around it."""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec.structs import replace

from acode.runner.container.discovery import Engine
from acode.runner.container.leaks import labels_for
from acode.runner.container.life import Owner, destroy, inspect, launch
from acode.runner.container.mounts import Places, mounts_of
from acode.runner.container.order import Command
from acode.runner.container.plan import Plan
from acode.runner.container.seat import Seat
from acode.runner.container.standin import fork_stand_in
from acode.runner.container.told import Told
from acode.runner.identity import myself
from acode.runner.pipes import Pipes, read_available
from tests.docker.engines import TestEngine
from tests.docker.images import BUSYBOX
from tests.docker.project import DockerProject

USER = 1234


class Done(NamedTuple):
    """How a command in a container ended."""

    code: int
    out: str
    err: str
    told: Told | None
    """What its stand-in knew; None if that was killed."""


class Running:
    """A command that goes on while the test does."""

    def __init__(self, seat: Seat, command: Command) -> None:
        self.pipes = Pipes()
        self._report, report = os.pipe2(os.O_CLOEXEC)
        ends = (self.pipes.stdout_end, self.pipes.stderr_end)
        self.pid = fork_stand_in(seat, command, *ends, report)
        os.close(report)

    def kill(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def printed(self) -> str:
        """What it has printed since the last look."""
        return read_available(self.pipes.stdout).decode()

    def end(self) -> Done:
        """Wait for it; it must not print more than a pipe holds."""
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        out, err = (read_available(pipe).decode() for _, pipe in self.pipes.tagged)
        told = os.read(self._report, 1 << 16)
        os.close(self._report)
        self.pipes.close()
        return Done(code, out, err, msgspec.msgpack.decode(told, type=Told) if told else None)


class Box:
    """A worker's container."""

    def __init__(self, engine: Engine, root: Path, name: str) -> None:
        self.engine = engine
        self.api = engine.api
        self.root = root
        agent = root / ".agent"
        self.workspace = str(agent / "worktrees" / name)
        self.temporary = str(agent / "run" / "tmp" / name)
        self.run_dir = str(agent / "run")
        self.places = Places(
            project=str(root),
            agent=str(agent),
            control=str(agent / "run" / "containers" / name),
            writable=(self.workspace, self.temporary),
        )
        for path in (self.workspace, self.temporary):
            os.makedirs(path, exist_ok=True)
            os.chown(path, USER, USER)
        os.makedirs(agent / "run" / "containers", exist_ok=True)
        # A pool of another test on the same engine must not take it for nobody's.
        (agent / "run" / "daemon.lock").write_bytes(msgspec.json.encode(myself()))
        self.name = name
        self.plan = self._plan()
        self._seat: Seat | None = None

    def _plan(self) -> Plan:
        mounts, masked = mounts_of(self.places)
        return Plan(
            name=f"acode-worker-{self.name}",
            image=BUSYBOX,
            control=self.places.control,
            user=f"{USER}:{USER}",
            labels=labels_for(self.name, self.run_dir, keep=False),
            env={"ACODE_CONTAINER": self.places.control},
            mounts=mounts,
            masked=masked,
            network="none",
        )

    def start(self, **changes: Any) -> "Box":
        self.plan = replace(self.plan, **changes)
        self._seat = launch(self.api, self.plan, Owner(USER, USER), 30, self.temporary)
        return self

    @property
    def seat(self) -> Seat:
        assert self._seat is not None, "it was not started"
        return self._seat

    def begin(self, *argv: str, env: Mapping[str, str] = {}, cwd: str | None = None) -> Running:
        return Running(self.seat, Command(argv, env, cwd or self.workspace))

    def run(self, *argv: str, env: Mapping[str, str] = {}, cwd: str | None = None) -> Done:
        return self.begin(*argv, env=env, cwd=cwd).end()

    def sh(self, script: str) -> Done:
        return self.run("sh", "-c", script)

    def inspect(self) -> dict[str, Any]:
        return inspect(self.api, self.seat.container_id)

    def processes(self) -> int:
        """How many run in the container, the first one and the supervisor included."""
        path = f"/containers/{self.seat.container_id}/top"
        return len(self.api.get(path)["Processes"])

    def close(self) -> None:
        destroy(self.api, self.plan.name)


MakeBox = Callable[..., Box]


@pytest.fixture
def engine(docker: TestEngine) -> Engine:
    return docker.wait()


@pytest.fixture
def make_box(engine: Engine, tmp_path: Path) -> Iterator[MakeBox]:
    """Containers over one project; removed here."""
    boxes: list[Box] = []
    tmp_path.chmod(0o755)

    def make(name: str = "one", on: Engine = engine) -> Box:
        # Names are the engine's, and tests run side by side.
        boxes.append(Box(on, tmp_path, f"{name}-{os.getpid()}"))
        return boxes[-1]

    yield make
    for box in boxes:
        box.close()


@pytest.fixture
def box(make_box: MakeBox) -> Box:
    """One that runs."""
    return make_box().start()


@pytest.fixture
def project(tmp_path: Path, docker: TestEngine) -> Iterator[DockerProject]:
    made = DockerProject(tmp_path / "project", docker)
    yield made
    made.close()
