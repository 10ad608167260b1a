"""Who waits for the disk: whoever was promised something, and never while having the lock."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from acode.clock import ManualClock
from acode.errors import StoreUnusable
from acode.model.task import Lease
from acode.store.base import Added, Store, TaskQuery
from acode.store.sql import group
from acode.store.sqlite import SqliteStore
from tests.conformance.kit import PLENTY, World, at_once, submission

SYNC = "acode.store.sqlite.log.os.fdatasync"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.db"


@pytest.fixture
def world(path: Path) -> Iterator[World]:
    store = SqliteStore.open(str(path), ManualClock(), grouped=False)
    yield World(store, ManualClock())
    at_once(store.close())


class Disk:
    """Stands in for the call that waits for the disk, and notes what is so meanwhile."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seen: list[int] = []
        """How many tasks others see at each call."""
        self.files: list[int] = []

    def sync(self, descriptor: int) -> None:
        self.files.append(os.fstat(descriptor).st_ino)
        other = sqlite3.connect(self.path, isolation_level=None, timeout=0)
        other.execute("BEGIN IMMEDIATE")  # raises if the lock is taken
        self.seen.append(other.execute("SELECT count(*) FROM tasks").fetchone()[0])
        other.execute("ROLLBACK")
        other.close()


@pytest.fixture
def disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk(path)
    monkeypatch.setattr(SYNC, made.sync)
    return made


def fail(_descriptor: int) -> None:
    raise OSError(5, "Input/output error")


# Alone, as a command is


def test_an_addition_is_brought_to_the_disk_when_the_lock_is_free(
    world: World, disk: Disk, path: Path
) -> None:
    at_once(world.add())
    at_once(world.add())
    assert disk.seen == [1, 2]
    assert set(disk.files) == {os.stat(f"{path}-wal").st_ino}


def test_a_task_that_was_there_already_is_told_of_when_it_is_on_disk(
    world: World, disk: Disk
) -> None:
    """Whoever added it may still wait for the disk."""
    one = submission()
    at_once(world.add_all(one))
    at_once(world.add_all(one))
    assert disk.seen == [1, 1]


def test_the_log_is_found_behind_a_link(tmp_path: Path, path: Path, disk: Disk) -> None:
    path.touch(0o600)
    (tmp_path / "link.db").symlink_to(path)
    store = SqliteStore.open(str(tmp_path / "link.db"), ManualClock(), grouped=False)
    at_once(World(store, ManualClock()).add())
    assert disk.files == [os.stat(f"{path}-wal").st_ino]
    at_once(store.close())


def test_an_addition_is_seen_before_the_wait_for_the_disk(world: World, disk: Disk) -> None:
    waits_when_rung: list[int] = []

    def see(added: Sequence[Added]) -> None:
        assert len(added) == 1
        waits_when_rung.append(len(disk.seen))

    at_once(world.store.add([submission()], actor="user", queue_size=PLENTY, seen=see))
    assert (waits_when_rung, disk.seen) == ([0], [1])


def test_claims_and_ends_wait_for_the_disk_only_when_asked_to(world: World, disk: Disk) -> None:
    lease = at_once(world.lease(at_once(world.add())))
    at_once(world.complete(lease))
    assert len(disk.seen) == 1
    at_once(world.store.settled())
    assert len(disk.seen) == 2


WISHES: dict[str, Callable[[Store, Lease], Any]] = {
    "cancel": lambda store, lease: store.cancel(lease.task.id, actor="user"),
    "pause": lambda store, _: store.pause(True, actor="user"),
    "save_step": lambda store, lease: store.save_step(lease.task.id, lease.token, "step", 1),
    "get": lambda store, lease: store.get(lease.task.id),
    "record": lambda store, lease: store.record(lease.task.id),
    "find": lambda store, _: store.find(TaskQuery()),
    "moves": lambda store, _: store.moves(0),
    "dead_letters": lambda store, _: store.dead_letters(),
}


@pytest.mark.parametrize("name", WISHES)
def test_what_a_user_is_told_is_on_disk(world: World, disk: Disk, name: str) -> None:
    """Also what is read: the engine may have written it this very moment."""
    lease = at_once(world.lease(at_once(world.add())))
    before = len(disk.seen)
    at_once(WISHES[name](world.store, lease))
    assert len(disk.seen) == before + 1


def test_a_disk_that_fails_is_told_of(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SYNC, fail)
    with pytest.raises(StoreUnusable, match="cannot be brought to the disk: Input/output error"):
        at_once(world.add())


# Beside others, as in a daemon


class SlowDisk:
    """Whoever waits for it waits until it is let go."""

    def __init__(self) -> None:
        self.waiting: list[str] = []
        """The threads that wait, or have waited, for it."""
        self.is_quick = threading.Event()

    def sync(self, _descriptor: int) -> None:
        self.waiting.append(threading.current_thread().name)
        assert self.is_quick.wait(30)

    async def has_waiters(self, count: int) -> None:
        while len(self.waiting) < count:  # noqa: ASYNC110 -- threads come to wait
            await asyncio.sleep(0.001)


@pytest.fixture
async def busy(path: Path) -> AsyncIterator[World]:
    store = SqliteStore.open(str(path), ManualClock())
    yield World(store, ManualClock())
    await store.close()


@pytest.fixture
def slow_disk(busy: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    """One that the loop has found to be slow."""
    store: Any = busy.store
    store._writer._sync_again = float("inf")
    disk = SlowDisk()
    monkeypatch.setattr(SYNC, disk.sync)
    yield disk
    disk.is_quick.set()


async def test_work_goes_on_while_the_disk_is_busy(busy: World, slow_disk: SlowDisk) -> None:
    """Tasks are added, claimed and finished; only who was promised the disk is kept waiting."""
    seen = asyncio.Event()
    adding = asyncio.ensure_future(
        busy.store.add(
            [submission(), submission()],
            actor="user",
            queue_size=PLENTY,
            seen=lambda _: seen.set(),
        )
    )
    await seen.wait()
    await slow_disk.has_waiters(1)
    first, second = await busy.claim(2)
    await busy.complete(first)
    await busy.complete(second)
    assert not adding.done()
    slow_disk.is_quick.set()
    assert len(await adding) == 2
    assert set(slow_disk.waiting) == {"acode-writer"}


async def test_what_is_told_keeps_its_order(busy: World, slow_disk: SlowDisk) -> None:
    told: list[int] = []

    async def tell(number: int) -> None:
        await busy.store.settled()
        told.append(number)

    first = asyncio.ensure_future(tell(1))
    await slow_disk.has_waiters(1)
    store: Any = busy.store
    store._writer._sync_again = 0.0  # the loop would try by itself now
    second = asyncio.ensure_future(tell(2))
    for _ in range(5):
        await asyncio.sleep(0)
    assert told == []
    slow_disk.is_quick.set()
    await asyncio.gather(first, second)
    assert told == [1, 2]


async def test_many_wait_for_the_disk_at_once(busy: World, slow_disk: SlowDisk) -> None:
    waiting = [asyncio.ensure_future(busy.store.settled())]
    await slow_disk.has_waiters(1)
    waiting += [asyncio.ensure_future(busy.store.settled()) for _ in range(50)]
    await asyncio.sleep(0.01)
    slow_disk.is_quick.set()
    await asyncio.gather(*waiting)
    assert len(slow_disk.waiting) == 2


async def test_a_quick_disk_is_waited_for_by_the_loop(
    busy: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "SLOW_SYNC_SECONDS", 60.0)
    disk = SlowDisk()
    disk.is_quick.set()
    monkeypatch.setattr(SYNC, disk.sync)
    lease = await busy.lease(await busy.add())
    await busy.complete(lease)
    await busy.store.settled()
    assert set(disk.waiting) == {threading.current_thread().name}
    assert len(disk.waiting) == 2


async def test_a_disk_that_has_become_slow_is_left_to_the_thread(
    busy: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "SLOW_SYNC_SECONDS", 0.0)
    monkeypatch.setattr(group, "SLOW_SHARE", 1e-6)
    disk = SlowDisk()
    disk.is_quick.set()
    monkeypatch.setattr(SYNC, disk.sync)
    for _ in range(3):
        await busy.store.settled()
    assert disk.waiting == [threading.current_thread().name, "acode-writer", "acode-writer"]


@pytest.mark.parametrize("by_the_loop", [True, False])
async def test_a_disk_that_fails_is_told_to_everybody_who_waits(
    busy: World, monkeypatch: pytest.MonkeyPatch, by_the_loop: bool
) -> None:
    store: Any = busy.store
    store._writer._sync_again = 0.0 if by_the_loop else float("inf")
    monkeypatch.setattr(SYNC, fail)
    outcomes = await asyncio.gather(
        busy.add(), busy.store.settled(), busy.store.settled(), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [StoreUnusable] * 3
    monkeypatch.undo()
    await busy.store.settled()


async def test_what_was_promised_before_the_close_is_kept(path: Path) -> None:
    store = SqliteStore.open(str(path), ManualClock())
    waiting = [asyncio.ensure_future(store.settled()) for _ in range(10)]
    await asyncio.sleep(0)
    await store.close()
    await asyncio.gather(*waiting)
    with pytest.raises(StoreUnusable, match="closed"):
        await store.settled()
