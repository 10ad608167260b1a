"""Every way to make a worktree, behind one fixture."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.workspace.kit import SOMEBODY, TASK, Steward, make_repository

FILES: dict[str, str | bytes] = {
    "README.md": "hello\n",
    "src/one.txt": "one\n",
    "src/two.txt": "two\n" * 100,
    "deep/er/still/file": "deep\n",
    "binary": bytes(range(256)),
    ".gitignore": "*.ignored\nbuild/\n",
}


class Way(NamedTuple):
    """A strategy, and as whom it is tried if we are root; else we are somebody already."""

    strategy: str
    somebody: int | None = None

    @property
    def uid(self) -> int | None:
        return self.somebody if os.geteuid() == 0 else None


WAYS = {
    "plain": Way("plain"),
    "warm": Way("warm"),
    "overlay-root": Way("overlay"),
    "overlay-somebody": Way("overlay", SOMEBODY),
}


class Field:
    """A project in a repository, and stewards that work for it."""

    def __init__(self, home: Path, way: Way) -> None:
        self.home = home
        self.way = way
        self.project = home / "project"
        self.patch = home / "changes.patch"
        self._stewards: list[Steward] = []

    def begin(self, files: dict[str, str | bytes] | None = None) -> Path:
        make_repository(self.project, FILES if files is None else files)
        self.give_away()
        return self.project

    def give_away(self) -> None:
        """Everything belongs to whoever runs the tasks."""
        if self.way.uid is not None:
            subprocess.run(["chown", "-R", f"{self.way.uid}:{self.way.uid}", self.home], check=True)

    def steward(self, within: Sequence[str] = ()) -> Steward:
        self._stewards.append(Steward(self.way.uid, within))
        return self._stewards[-1]

    def order(self, **more: Any) -> dict[str, Any]:
        return {
            "task_id": TASK,
            "number": 1,
            "worker_id": "01JWORKER",
            "kind": "worktree",
            "project_root": str(self.project),
            "trees": str(self.project / ".agent" / "worktrees" / "01JWORKER"),
            "strategy": self.way.strategy,
            **more,
        }

    def end(self) -> None:
        for steward in self._stewards:
            steward.end()


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory in memory that every user may enter."""
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    place = Path(tempfile.mkdtemp(prefix="acode-test-", dir=memory))
    place.chmod(0o755)
    yield place
    subprocess.run(["chmod", "-R", "u+rwX", place], check=False, capture_output=True)
    shutil.rmtree(place)


@pytest.fixture(params=WAYS)
def field(request: pytest.FixtureRequest, home: Path) -> Iterator[Field]:
    field = Field(home, WAYS[request.param])
    yield field
    field.end()


@pytest.fixture
def plain_field(home: Path) -> Iterator[Field]:
    """Where the strategy does not matter."""
    field = Field(home, Way("plain"))
    yield field
    field.end()


class Desk:
    """One steward and one workspace in a fresh repository."""

    def __init__(self, field: Field, steward: Steward | None = None, **order: Any) -> None:
        self.field = field
        self.steward = steward or field.steward()
        # Each task has a place of its own for its patch; most tests have one task.
        task = order.get("task_id")
        self.patch = f"{field.patch}-{task}" if task else str(field.patch)
        self.opened = self.steward.ask("open", name="it", order=field.order(**order))
        self.path = Path(self.opened["path"])

    def run(self, command: str) -> str:
        done = self.steward.ask("run", name="it", command=command)
        assert done["code"] == 0, done
        return str(done["stdout"])

    def collect(self, message: str | None = None) -> Any:
        return self.steward.ask("collect", name="it", patch=self.patch, message=message)

    def close(self, **how: Any) -> None:
        self.steward.ask("close", name="it", **how)
