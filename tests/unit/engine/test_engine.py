"""An engine inside the test: its events, its clock, its workers, which are real processes."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import msgspec
import pytest

from acode.clock import Deadline, SystemClock
from acode.engine.daemon import Daemon
from acode.engine.engine import Engine
from acode.errors import PoolNotRunning
from acode.hosts import my_host_id
from acode.ids import new_id
from acode.model.event import (
    PoolEvent,
    PoolNote,
    PoolScaled,
    TaskAssigned,
    TaskEnded,
    WorkerCrashed,
    WorkerFailed,
    WorkerStarted,
    WorkerStatusChanged,
    WorkerStopped,
)
from acode.model.host import Host
from acode.model.state import Status, WorkerStatus
from acode.model.task import Mode, Submission, TaskSpec
from acode.observe.events import Events
from acode.observe.logread import read
from acode.project import Project
from acode.settings import Settings
from acode.store.sqlite import SqliteStore
from acode.worker.config import WorkerConfig

E = TypeVar("E", bound=PoolEvent)


class ShiftedClock:
    """The machine's clock, which somebody may set."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self.ahead_ms = 0

    def now(self) -> int:
        return self._clock.now() + self.ahead_ms


class Stage:
    """An engine and everything that it has said."""

    def __init__(self, root: Path) -> None:
        self.project = Project(str(root))
        self.project.prepare()
        self.clock = ShiftedClock()
        self.said: list[PoolEvent] = []
        self.engine: Engine

    def configure(self, **sections: Any) -> None:
        settings = msgspec.convert(sections, Settings)
        events = Events()
        events.subscribe(self.said.append)
        config = WorkerConfig(
            id="",
            project_root=self.project.root,
            agent_dir=self.project.agent_dir,
            config_file=self.project.config_file,
            worktrees=self.project.worktrees_dir,
            heartbeat_ms=settings.workers.heartbeat_interval_ms,
            on_daemon_exit="keep",
            log_max_bytes=1 << 20,
            log_max_files=2,
        )
        host = Host(id=my_host_id(self.project, self.clock.now()), name="a", boot_id="b", pid=1)
        self.engine = Engine(self.project, settings, config, os.environ, self.clock, events, host)

    async def add(self, command: str) -> str:
        task = Submission(new_id(self.clock.now()), TaskSpec(title="it", command=command))
        await self.engine.store.add([task], actor="test", queue_size=100)
        self.engine.bell.ring()
        return task.id

    def heard(self, kind: type[E], fits: Callable[[E], bool] = lambda _: True) -> list[E]:
        return [event for event in self.said if isinstance(event, kind) and fits(event)]

    async def hear(self, kind: type[E], fits: Callable[[E], bool] = lambda _: True) -> E:
        """Wait until it is said."""
        deadline = Deadline(60)
        while not (found := self.heard(kind, fits)):
            assert deadline.left() > 0, self.said
            await asyncio.sleep(0.01)
        return found[-1]

    async def ended(self, task: str) -> TaskEnded:
        return await self.hear(TaskEnded, lambda event: event.task_id == task)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    await stage.engine.stop(hurry=lambda: True)
    await stage.engine.close()


QUICK = {"workers": {"process": {"restartDelayMs": 10, "maxRestartDelayMs": 20, "maxRestarts": 1}}}


@pytest.mark.req("027-FR-022", "027-FR-023", "027-AC-012", "027a-EXIT-137")
async def test_workers_are_told_of_when_they_start_fail_and_stop(stage: Stage) -> None:
    stage.configure(**QUICK)
    await stage.engine.start(1)
    (started,) = stage.heard(WorkerStarted)
    os.kill(started.pid, signal.SIGKILL)
    crashed = await stage.hear(WorkerCrashed)
    assert (crashed.worker_id, crashed.reason) == (started.worker_id, "SIGKILL, exit code 137")
    again = await stage.hear(WorkerStarted, lambda event: event.pid != started.pid)
    assert again.worker_id == started.worker_id
    os.kill(again.pid, signal.SIGKILL)
    failed = await stage.hear(WorkerFailed)
    assert failed.worker_id == started.worker_id
    other = await stage.hear(WorkerStarted, lambda event: event.worker_id != started.worker_id)
    await stage.engine.pool.drain(hurry=lambda: False)
    assert [event.worker_id for event in stage.heard(WorkerStopped)] == [other.worker_id]


@pytest.mark.req("027-FR-038", "027-FR-039", "027-AC-003", "027-AC-004", "027-AC-005")
@pytest.mark.req("027a-FR-056", "027a-FR-067", "027a-FR-068", "027a-AC-007")
async def test_a_task_is_told_of_when_it_is_assigned_and_when_it_ends(stage: Stage) -> None:
    stage.configure()
    await stage.engine.start(1)
    good, bad = await stage.add("true"), await stage.add("exit 3")
    done, failed = await stage.ended(good), await stage.ended(bad)
    assert (done.status, done.number) == (Status.COMPLETED, 1)
    assert failed.status is Status.FAILED
    assert [event.task_id for event in stage.heard(TaskAssigned)] == [good, bad]
    record = await stage.engine.store.record(good)
    assert [move.became for move in record.history] == ["pending", "running", "completed"]


@pytest.mark.req("027-FR-016")
async def test_a_worker_goes_through_its_states(stage: Stage) -> None:
    stage.configure()
    await stage.engine.start(1)
    await stage.ended(await stage.add("true"))
    await stage.engine.pool.drain(hurry=lambda: False)
    seen = [event.status for event in stage.heard(WorkerStatusChanged)]
    assert seen == [
        WorkerStatus.IDLE,
        WorkerStatus.BUSY,
        WorkerStatus.IDLE,
        WorkerStatus.STOPPING,
        WorkerStatus.STOPPED,
    ]


async def test_a_worker_goes_from_one_task_to_the_next(stage: Stage) -> None:
    stage.configure()
    first, second = await stage.add("true"), await stage.add("true")
    await stage.engine.start(1)
    await stage.ended(second)
    seen = [(event.status, event.task_id) for event in stage.heard(WorkerStatusChanged)]
    assert seen[:3] == [
        (WorkerStatus.IDLE, None),
        (WorkerStatus.BUSY, first),
        (WorkerStatus.BUSY, second),
    ]


async def test_the_pool_tells_of_its_size(stage: Stage) -> None:
    stage.configure()
    await stage.engine.start(1)
    await stage.engine.pool.scale(3)
    await stage.engine.pool.scale(2)
    assert [(event.was, event.now) for event in stage.heard(PoolScaled)] == [(1, 3), (3, 2)]


async def test_a_pool_that_was_scaled_meanwhile_needs_no_replacement(stage: Stage) -> None:
    process = {"restartDelayMs": 10, "maxRestartDelayMs": 300, "maxRestarts": 0}
    stage.configure(workers={"process": process})
    await stage.engine.start(2)
    os.kill(stage.heard(WorkerStarted)[0].pid, signal.SIGKILL)
    await stage.hear(WorkerFailed)
    await stage.engine.pool.scale(3)
    await asyncio.sleep(0.5)  # the replacement would be there by now
    assert len(stage.engine.roster) == 3


async def test_what_was_adopted_beyond_the_size_of_the_pool_goes(stage: Stage) -> None:
    stage.configure()
    await stage.engine.start(3)
    await stage.engine.pool.fill(1, Mode.PROCESS)
    await stage.hear(WorkerStopped, lambda _: len(stage.heard(WorkerStopped)) == 2)
    assert len(stage.engine.roster) == 1


@pytest.mark.parametrize("ahead_ms", [86_400_000, -86_400_000], ids=["forward", "back"])
async def test_setting_the_clock_expires_nothing(stage: Stage, ahead_ms: int) -> None:
    stage.configure(workers={"heartbeatIntervalMs": 100})
    await stage.engine.start(1)
    task = await stage.add("sleep 1")
    await stage.hear(TaskAssigned)
    stage.clock.ahead_ms = ahead_ms
    ended = await stage.ended(task)
    assert (ended.status, ended.number) == (Status.COMPLETED, 1)
    assert not stage.heard(WorkerCrashed)
    assert len(stage.heard(TaskAssigned)) == 1


@pytest.mark.req("027a-FR-011", "027a-FR-012", "027a-EXIT-0")
async def test_a_worker_that_is_told_to_stop_exits_with_0(stage: Stage) -> None:
    stage.configure()
    await stage.engine.start(1)
    (worker,) = stage.heard(WorkerStarted)
    await stage.engine.pool.drain(hurry=lambda: False)
    said = [record.message for record in read(stage.project.worker_log(worker.worker_id))]
    assert said[-1] == b"worker stopped with exit code 0"


@pytest.mark.req("027a-FR-013", "027a-EXIT-143")
async def test_a_worker_that_is_terminated_exits_with_143(stage: Stage) -> None:
    stage.configure(**QUICK)
    await stage.engine.start(1)
    (worker,) = stage.heard(WorkerStarted)
    os.kill(worker.pid, signal.SIGTERM)
    assert (await stage.hear(WorkerCrashed)).reason == "exit code 143"


async def test_a_wire_that_breaks_is_made_anew_and_the_task_goes_on(stage: Stage) -> None:
    stage.configure()
    await stage.engine.start(1)
    go = Path(stage.project.root) / "go"
    task = await stage.add(f"while [ ! -e {go} ]; do sleep 0.01; done")
    await stage.hear(TaskAssigned)
    (slot,) = stage.engine.roster
    assert slot.link is not None
    slot.link.close()
    await stage.hear(PoolNote, lambda note: "it is back" in note.message)
    go.touch()
    assert (await stage.ended(task)).status is Status.COMPLETED
    assert (await stage.engine.store.get(task)).attempt_count == 1


async def test_an_ending_that_a_broken_wire_swallowed_is_heard_again(stage: Stage) -> None:
    stage.configure()
    await stage.engine.start(1)
    (slot,) = stage.engine.roster
    go = Path(stage.project.root) / "go"
    task = await stage.add(f"while [ ! -e {go} ]; do sleep 0.01; done")
    await stage.hear(TaskAssigned)
    assert slot.link is not None
    slot.link._on_frame = lambda _frame: None  # what comes now is lost
    go.touch()
    spool = Path(stage.project.run_dir) / "spool" / slot.id
    while task.encode() not in spool.read_bytes():  # noqa: ASYNC110 -- a file of another process
        await asyncio.sleep(0.01)
    slot.link.close()
    assert (await stage.ended(task)).status is Status.COMPLETED


async def test_an_order_that_a_broken_wire_swallowed_is_given_again(stage: Stage) -> None:
    stage.configure()
    await stage.engine.start(1)
    (slot,) = stage.engine.roster
    link = slot.link
    assert link is not None
    link.send = lambda *_words: None  # type: ignore[method-assign]
    task = await stage.add("true")
    await stage.hear(TaskAssigned)
    link.close()
    ended = await stage.hear(TaskEnded, lambda event: event.status is Status.COMPLETED)
    assert ended.task_id == task
    assert (await stage.engine.store.get(task)).attempt_count == 1


@pytest.mark.req("027-FR-031")
async def test_a_task_that_came_without_a_ring_is_found_by_polling(stage: Stage) -> None:
    stage.configure(workers={"pollIntervalMs": 20, "idleBackoffMaxMs": 50})
    await stage.engine.start(1)
    task = Submission(new_id(stage.clock.now()), TaskSpec(title="it", command="true"))
    await stage.engine.store.add([task], actor="test", queue_size=100)
    assert (await stage.ended(task.id)).status is Status.COMPLETED


async def test_a_daemon_that_is_about_to_leave_says_so(tmp_path: Path) -> None:
    store = SqliteStore.open(str(tmp_path / "queue.db"), SystemClock(), grouped=False)
    await store.close()
    daemon = Daemon.__new__(Daemon)
    daemon._engine = cast("Engine", SimpleNamespace(counts=store.counts))
    daemon._stopping = asyncio.Event()
    daemon._stopping.set()
    with pytest.raises(PoolNotRunning):
        await daemon._status({})


@pytest.mark.req("forge-25")
@pytest.mark.parametrize(("heartbeats_ms", "rest"), [(10_000, 10.0), (60_000, 30.0)])
async def test_heartbeats_are_looked_at_every_thirty_seconds_at_least(
    stage: Stage, heartbeats_ms: int, rest: float
) -> None:
    stage.configure(workers={"heartbeatIntervalMs": heartbeats_ms})
    assert await stage.engine.pool.watch_health() == rest
