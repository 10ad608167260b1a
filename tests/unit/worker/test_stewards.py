"""Who is kept waiting for the next attempt, and for how long. `cat` ends when nobody is there."""

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from acode.worker import stewards
from acode.worker.bounds import Bounds
from acode.worker.config import WorkerConfig
from acode.worker.loop import Loop
from acode.worker.reports import Free, Remark, tell
from acode.worker.stewards import Hand, Stewards


class Crew:
    """A worker's stewards, played by programs that say one thing and then listen."""

    def __init__(self, root: Path) -> None:
        config = WorkerConfig(
            id="01HZZZZZZZZZZZZZZZZZZZZZZZ",
            project_root=str(root),
            agent_dir=str(root),
            config_file=str(root / "config.yml"),
            worktrees=str(root),
            heartbeat_ms=50,
            on_daemon_exit="keep",
            log_max_bytes=1,
            log_max_files=1,
        )
        self.loop = Loop()
        self.stewards = Stewards(config, {}, Bounds(config), self.loop)
        self.processes: list[subprocess.Popen[bytes]] = []

    def tidies_up(self, word: Free | Remark) -> subprocess.Popen[bytes]:
        """One whose attempt is over, and what it says then."""
        ours, theirs = socket.socketpair()
        tell(theirs, word)
        process = subprocess.Popen(["cat"], stdin=theirs, stdout=subprocess.DEVNULL)
        theirs.close()
        self.processes.append(process)
        self.stewards.dismiss(Hand(process.pid, ours))
        self.loop.run_once(None)
        return process


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path)
    yield crew
    crew.stewards.close()
    for process in crew.processes:
        process.wait()
    crew.loop.close()


def test_one_is_kept_and_the_next_one_leaves(crew: Crew) -> None:
    first = crew.tidies_up(Free())
    second = crew.tidies_up(Free())
    second.wait()
    assert first.poll() is None


def test_whoever_still_tidies_up_is_not_kept(crew: Crew) -> None:
    crew.tidies_up(Remark("I", "not yet"))
    assert crew.stewards.deadline is None


def test_nobody_waits_for_ever(crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = crew.tidies_up(Free())
    crew.stewards.on_time()
    assert waits.poll() is None
    monkeypatch.setattr(stewards, "SPARE_SECONDS", 0.0)
    crew.stewards.close()
    brief = crew.tidies_up(Free())
    crew.stewards.on_time()
    brief.wait()
    assert crew.stewards.deadline is None


def test_one_that_died_is_not_kept(crew: Crew) -> None:
    dies = crew.tidies_up(Free())
    dies.kill()
    crew.loop.run_once(None)
    assert crew.stewards.deadline is None
    dies.wait()


def test_nobody_waits_for_a_worker_that_leaves(crew: Crew) -> None:
    everybody = [crew.tidies_up(Free()), crew.tidies_up(Remark("I", "not yet"))]
    crew.stewards.close()
    for process in everybody:
        process.wait()
