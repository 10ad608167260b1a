"""A worker by itself, with the test in the daemon's place."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from acode.clock import SystemClock
from acode.model.ending import Exited
from acode.sockets import connect, listen
from acode.worker import main, spool
from acode.worker.config import WorkerConfig
from acode.worker.exits import ExitCode
from acode.worker.main import work
from acode.worker.messages import Action, Assignment, Control, Ended, Heartbeat
from acode.worker.wire import Frame, FrameReader, FrameType, pack, unpack

ID = "01HZZZZZZZZZZZZZZZZZZZZZZZ"


def be_a_worker(config: WorkerConfig, path: str) -> None:
    raise SystemExit(work(config, listen(path)))


def be_forsaken(config: WorkerConfig, path: str) -> None:
    """Be a worker whose daemon is overdue as soon as it is gone."""

    class Forsaken(main.Worker):
        def _on_daemon_gone(self) -> None:
            super()._on_daemon_gone()
            self._orphan_at = 0.0

    main.Worker = Forsaken  # type: ignore[misc]
    be_a_worker(config, path)


class Worker:
    """A worker process and the wire to it."""

    def __init__(self, root: Path, be: Callable[[WorkerConfig, str], None] = be_a_worker) -> None:
        agent = root / ".agent"
        for folder in ("workers", "spool", "tmp", "checkpoints"):
            (agent / "run" / folder).mkdir(parents=True)
        self.config = WorkerConfig(
            id=ID,
            project_root=str(root),
            agent_dir=str(agent),
            config_file=str(agent / "config.yml"),
            worktrees=str(agent / "worktrees"),
            heartbeat_ms=50,
            on_daemon_exit="keep",
            log_max_bytes=1 << 20,
            log_max_files=2,
        )
        self._path = str(agent / "run" / "workers" / f"{ID}.sock")
        self.process = get_context("forkserver").Process(target=be, args=(self.config, self._path))
        self.process.start()
        self.call()

    def call(self) -> None:
        """Be its daemon from now on."""
        while True:
            try:
                self._wire: socket.socket = connect(self._path)
            except OSError:
                self.process.join(0.01)
                assert self.process.is_alive()
            else:
                break
        self._frames = self._receive()

    def hang_up(self) -> None:
        self._wire.close()

    def _receive(self) -> Iterator[Frame]:
        reader = FrameReader()
        self._wire.settimeout(60)
        while data := self._wire.recv(1 << 16):
            yield from reader.feed(data)

    def hear(self, kind: FrameType) -> Frame:
        return next(frame for frame in self._frames if frame.type is kind)

    def beat(self) -> Heartbeat:
        return unpack(self.hear(FrameType.HEARTBEAT), Heartbeat)

    def give(self, kind: FrameType, payload: object) -> None:
        self._wire.sendall(pack(kind, "id", SystemClock().now(), payload))

    def babble(self) -> None:
        """Send what is no frame; the worker hangs up."""
        self._wire.sendall(b"\xff" * 64)
        for _ in self._frames:
            pass
        self.hang_up()

    def run(self, command: str) -> None:
        self.give(
            FrameType.TASK,
            Assignment(
                task_id="task",
                token="token",
                number=1,
                argv=("sh", "-c", command),
                env={},
                timeout_seconds=60,
                kill_timeout_seconds=1,
            ),
        )

    def stop(self) -> int | None:
        self.give(FrameType.CONTROL, Control(action=Action.SHUTDOWN, force=True))
        self.process.join(60)
        return self.process.exitcode


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    worker = Worker(tmp_path)
    yield worker
    worker.hang_up()
    worker.process.kill()
    worker.process.join()


@pytest.mark.req("027-FR-041", "027-FR-042", "027-AC-006")
def test_it_beats_while_it_works_and_says_at_what(worker: Worker, tmp_path: Path) -> None:
    assert worker.beat().current is None
    worker.run(f"while [ ! -e {tmp_path}/go ]; do sleep 0.01; done")
    working = [beat for beat in (worker.beat() for _ in range(5)) if beat.current is not None]
    assert len(working) >= 3
    assert {beat.current.task_id for beat in working if beat.current} == {"task"}
    (tmp_path / "go").touch()
    assert unpack(worker.hear(FrameType.RESULT), Ended).ending == Exited(0)
    assert worker.stop() == ExitCode.CLEAN


def test_an_ending_is_told_again_until_it_is_acknowledged(worker: Worker) -> None:
    worker.run("exit 7")
    ended = unpack(worker.hear(FrameType.RESULT), Ended)
    assert spool.read(f"{worker.config.run_dir}/spool/{ID}") == ended
    worker.hang_up()
    worker.call()
    assert worker.beat().ended == ended
    worker.give(FrameType.CONTROL, Control(action=Action.ACKNOWLEDGE, token="token"))
    while worker.beat().ended is not None:
        pass
    assert worker.stop() == ExitCode.CLEAN


def test_a_worker_that_leaves_says_so_with_its_last_result(worker: Worker) -> None:
    worker.beat()
    worker.run("sleep 60")
    while worker.beat().current is None:
        pass
    worker.give(FrameType.CONTROL, Control(action=Action.SHUTDOWN, force=True))
    assert unpack(worker.hear(FrameType.RESULT), Ended).leaves
    worker.process.join(60)
    assert worker.process.exitcode == ExitCode.CLEAN


def test_a_busy_worker_takes_no_other_task(worker: Worker) -> None:
    worker.run("sleep 60")
    worker.run("true")
    assert b"busy" in bytes(worker.hear(FrameType.ERROR).payload)
    assert worker.stop() == ExitCode.CLEAN


def test_garbage_on_the_wire_ends_only_the_wire(worker: Worker) -> None:
    worker.beat()
    worker.babble()
    worker.call()
    assert worker.beat().worker_id == ID
    assert worker.stop() == ExitCode.CLEAN


@pytest.mark.req("027a-EXIT-1")
def test_a_worker_that_leaves_after_a_failed_task_says_so(worker: Worker, tmp_path: Path) -> None:
    worker.run(f"while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; exit 3")
    while worker.beat().current is None:
        pass
    worker.give(FrameType.CONTROL, Control(action=Action.SHUTDOWN))
    (tmp_path / "go").touch()
    worker.process.join(60)
    assert worker.process.exitcode == ExitCode.TASK_FAILED == 1


def test_a_worker_whose_daemon_is_long_gone_waits_for_its_attempt_asleep(tmp_path: Path) -> None:
    worker = Worker(tmp_path, be_forsaken)
    try:
        worker.run(f"while [ ! -e {tmp_path}/go ]; do sleep 0.01; done")
        while worker.beat().current is None:
            pass
        worker.hang_up()
        log = tmp_path / f".agent/logs/workers/worker-{ID}.log"
        while b"the daemon is gone" not in log.read_bytes():
            worker.process.join(0.01)
        # Whoever looks at the time again and again is never asleep.
        status = Path(f"/proc/{worker.process.pid}/status")
        assert any("\nState:\tS" in status.read_text() for _ in range(10_000))
        (tmp_path / "go").touch()
        while (ended := spool.read(f"{worker.config.run_dir}/spool/{ID}")) is None:
            worker.process.join(0.01)
        assert ended.ending == Exited(0)
    finally:
        worker.process.kill()
        worker.process.join()


def birth(root: Path, **changes: Any) -> int | None:
    """The exit code of a worker that does not get far."""
    config = WorkerConfig(
        id=ID,
        project_root=str(root),
        agent_dir=str(root / ".agent"),
        config_file="",
        worktrees=str(root / "trees"),
        heartbeat_ms=50,
        on_daemon_exit="keep",
        log_max_bytes=1 << 20,
        log_max_files=2,
        **changes,
    )
    process = get_context("forkserver").Process(
        target=be_a_worker, args=(config, str(root / "worker.sock"))
    )
    process.start()
    process.join(60)
    return process.exitcode


@pytest.mark.req("027a-EXIT-2")
def test_a_worker_without_usable_directories_ends_at_once(tmp_path: Path) -> None:
    assert birth(tmp_path) == ExitCode.CONFIGURATION == 2


@pytest.mark.req("027a-EXIT-3")
def test_a_worker_without_a_required_tool_ends_at_once(tmp_path: Path) -> None:
    assert birth(tmp_path, tools=("no-such-tool",)) == ExitCode.TOOL_NOT_FOUND == 3


@pytest.mark.req("027a-EXIT-143")
def test_signals_end_a_worker_as_shells_report_it(worker: Worker) -> None:
    worker.beat()
    assert worker.process.pid is not None
    os.kill(worker.process.pid, signal.SIGTERM)
    worker.process.join(60)
    assert worker.process.exitcode == ExitCode.TERMINATED == 143


@pytest.mark.req("027a-FR-014")
def test_every_exit_code_is_documented() -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "errors.md"
    table = page.read_text(encoding="utf-8").partition("## Exit codes of workers")[2]
    rows = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("|")]
    assert [int(row) for row in rows if row.isdigit()] == [code.value for code in ExitCode]
