"""Additions wait for the disk when the lock is free again; everything else does before."""

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acode.clock import ManualClock
from acode.errors import StoreUnusable
from acode.store.sqlite import SqliteStore
from tests.conformance.kit import World, at_once, submission


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
    monkeypatch.setattr("acode.store.sqlite.book.os.fdatasync", made.sync)
    return made


def level(world: World) -> int:
    store: Any = world.store
    return int(store._book.connection.execute("PRAGMA synchronous").fetchone()[0])


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


def test_whatever_else_is_written_is_on_disk_before_anybody_sees_it(
    world: World, disk: Disk
) -> None:
    lease = at_once(world.lease(at_once(world.add())))
    assert level(world) == 2
    at_once(world.add())
    at_once(world.complete(lease))
    assert level(world) == 2
    assert len(disk.seen) == 2


def test_a_disk_that_fails_is_told_of(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("acode.store.sqlite.book.os.fdatasync", fail)
    with pytest.raises(StoreUnusable, match="cannot be brought to the disk: Input/output error"):
        at_once(world.add())
