"""Checkpoint files between machines: what is kept, what is brought, and what is left alone."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from acode.clock import ManualClock
from acode.engine.luggage import MAX_BYTES, STEP, Luggage
from acode.engine.roster import Roster
from acode.errors import LeaseLost
from acode.model.event import PoolEvent, PoolNote
from acode.model.state import WorkerStatus
from acode.model.task import Lease, Mode
from acode.model.verdict import Release
from acode.observe.events import Events
from acode.store.base import Claim
from acode.store.memory import MemoryStore
from acode.worker.config import WorkerConfig
from acode.worker.places import keep_checkpoint, kept_checkpoint, live_checkpoint
from tests.conformance.kit import WORKER, report, submission


class Machine:
    """The directories of one host, with one worker."""

    def __init__(self, root: Path, name: str, store: MemoryStore) -> None:
        self.said: list[PoolEvent] = []
        events = Events()
        events.subscribe(self.said.append)
        self.roster = Roster(events)
        self.config = WorkerConfig(
            id=WORKER,
            project_root=str(root),
            agent_dir=str(root / name),
            config_file="",
            worktrees="",
            heartbeat_ms=1000,
            on_daemon_exit="keep",
            log_max_bytes=1,
            log_max_files=1,
        )
        os.makedirs(self.config.live_checkpoints)
        os.makedirs(f"{self.config.run_dir}/checkpoints")
        self.luggage = Luggage(store, self.roster, self.config, name, 1.0, events)

    def begin(self, lease: Lease) -> Path:
        """What a daemon does, and then a worker; where the task has its file."""
        self.luggage.bring(lease)
        slot = self.roster.add(WORKER, Mode.PROCESS)
        slot.status = WorkerStatus.IDLE
        slot.take(lease)
        live = self.live(lease)
        if self.kept(lease).exists():
            self.kept(lease).rename(live)
        return live

    async def end(self, lease: Lease) -> None:
        keep_checkpoint(self.config, lease.task.id)
        self.live(lease).unlink(missing_ok=True)
        await self.luggage.keep(lease)
        for slot in self.roster.busy():
            self.roster.remove(slot)

    def live(self, lease: Lease) -> Path:
        return Path(live_checkpoint(self.config, lease.task.id))

    def kept(self, lease: Lease) -> Path:
        return Path(kept_checkpoint(self.config, lease.task.id))

    def notes(self) -> list[str]:
        return [event.message for event in self.said if isinstance(event, PoolNote)]


class World:
    """Two machines and a task that goes from one to the other."""

    def __init__(self, root: Path) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock)
        self.here = Machine(root, "here", self.store)
        self.there = Machine(root, "there", self.store)

    async def lease(self) -> Lease:
        (lease,) = await self.store.claim(Claim(1, lambda tasks: [WORKER] * len(tasks)))
        return lease

    async def attempt(self, machine: Machine, work: Callable[[Path], object]) -> Lease:
        """One attempt from its claim to its release."""
        lease = await self.lease()
        work(machine.begin(lease))
        await machine.end(lease)
        await self.store.finish(report(lease, Release("drained"), self.clock.now()))
        return lease

    async def read(self, machine: Machine) -> str | None:
        """What an attempt there finds."""
        found: list[str | None] = []

        def look(path: Path) -> None:
            found.append(path.read_text() if path.exists() else None)

        await self.attempt(machine, look)
        return found[0]


@pytest.fixture
async def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    await made.store.add([submission()], actor="user", queue_size=10)
    return made


def write(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text)


async def test_what_one_machine_left_is_found_on_another(world: World) -> None:
    await world.attempt(world.here, write("half"))
    assert await world.read(world.there) == "half"
    assert await world.read(world.here) == "half"


async def test_the_newest_counts_wherever_it_was_written(world: World) -> None:
    await world.attempt(world.here, write("one"))
    await world.attempt(world.there, write("two"))
    assert await world.read(world.here) == "two"


async def test_a_checkpoint_that_was_removed_stays_removed(world: World) -> None:
    await world.attempt(world.here, write("one"))
    world.here.kept(await world.attempt(world.there, Path.unlink)).touch()
    assert await world.read(world.here) is None
    assert await world.read(world.there) is None


async def test_a_task_without_one_has_no_steps(world: World) -> None:
    await world.attempt(world.here, lambda _path: None)
    assert (await world.lease()).steps == {}


async def test_what_is_written_meanwhile_is_kept_before_the_end(world: World) -> None:
    lease = await world.lease()
    world.here.begin(lease).write_text("half")
    assert await world.here.luggage.tick() == 1.0
    # The machine is gone.
    await world.store.finish(report(lease, Release("it fell silent"), world.clock.now()))
    assert await world.read(world.there) == "half"


async def test_a_lease_that_was_taken_over_leaves_what_was_kept_alone(world: World) -> None:
    lease = await world.lease()
    world.here.begin(lease).write_text("half")
    await world.here.luggage.tick()
    taken = Lease(
        task=lease.task,
        number=lease.number,
        token=lease.token,
        worker_id=lease.worker_id,
        ran_on="here",
    )
    await world.there.luggage.keep(taken)
    await world.store.finish(report(lease, Release("it fell silent"), world.clock.now()))
    assert await world.read(world.there) == "half"


async def test_only_news_is_written(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = await world.lease()
    path = world.here.begin(lease)
    path.write_text("half")
    await world.here.luggage.tick()
    written: list[str] = []

    async def save_step(_id: str, _token: str, step: str, _value: object) -> None:
        written.append(step)

    monkeypatch.setattr(world.store, "save_step", save_step)
    await world.here.luggage.tick()
    await world.here.end(lease)
    assert written == []
    world.here.begin(lease).write_text("and more")
    await world.here.luggage.tick()
    assert written == [STEP]


async def test_a_large_one_stays_where_it_is_and_that_is_told_once(world: World) -> None:
    large = "x" * (MAX_BYTES + 1)
    lease = await world.lease()
    world.here.begin(lease).write_text(large)
    await world.here.luggage.tick()
    await world.here.luggage.tick()
    await world.here.end(lease)
    await world.store.finish(report(lease, Release("drained"), world.clock.now()))
    (note,) = world.here.notes()
    assert "too large for other machines: more than 256 KB" in note
    assert await world.read(world.here) == large
    await world.attempt(world.here, lambda _path: None)
    assert await world.read(world.there) is None


def _link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


@pytest.mark.parametrize("trap", [os.mkfifo, os.mkdir, _link])
async def test_whatever_is_no_file_is_left_alone(
    world: World, trap: Callable[[Path], object]
) -> None:
    lease = await world.lease()
    path = world.here.begin(lease)
    trap(path)
    await world.here.luggage.tick()
    path.rename(world.here.kept(lease))
    await world.here.luggage.keep(lease)
    await world.store.finish(report(lease, Release("drained"), world.clock.now()))
    assert (await world.lease()).steps == {}


async def test_an_attempt_that_is_not_current_keeps_nothing(world: World) -> None:
    lease = await world.lease()
    world.here.begin(lease).write_text("late")
    await world.store.finish(report(lease, Release("it fell silent"), world.clock.now()))
    await world.here.luggage.tick()
    with pytest.raises(LeaseLost):
        await world.here.end(lease)
    assert (await world.lease()).steps == {}


async def test_what_cannot_be_brought_is_told(world: World) -> None:
    await world.attempt(world.here, write("half"))
    lease = await world.lease()
    os.mkdir(world.there.kept(lease))
    world.there.luggage.bring(lease)
    (note,) = world.there.notes()
    assert "cannot be brought here" in note
