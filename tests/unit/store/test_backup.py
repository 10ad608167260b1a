"""Backup: a copy of one moment, made while the store is in use, or nothing at all."""

import asyncio
import os
import sqlite3
import stat
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from acode.clock import ManualClock
from acode.errors import AlreadyThere, StoreDamaged, StoreUnusable
from acode.store.base import TaskQuery
from acode.store.sqlite import SqliteStore
from tests.conformance.kit import PLENTY, World, assert_sound, at_once, submission

STORE_FILES = ["queue.db", "queue.db-shm", "queue.db-wal"]


@pytest.fixture(params=[True, False], ids=["grouped", "direct"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    clock = ManualClock()
    store = SqliteStore.open(str(tmp_path / "queue.db"), clock, grouped=request.param)
    yield World(store, clock)
    await store.close()


async def titles_in(copy: Path) -> list[str]:
    """Every title, after a look at whether the copy is whole."""
    store = SqliteStore.open(str(copy), ManualClock())
    await assert_sound(store)
    titles = [str(task.spec.title) for task in await store.find(TaskQuery(limit=PLENTY))]
    await store.close()
    return titles


async def test_a_copy_holds_everything_and_can_be_used(world: World, tmp_path: Path) -> None:
    for title in "abc":
        await world.add(title=title)
    lease = await world.lease()
    copy = tmp_path / "copy.db"
    await world.store.backup(str(copy))
    await world.add(title="later")
    assert await titles_in(copy) == ["a", "b", "c"]
    again = World(SqliteStore.open(str(copy), world.clock), world.clock)
    await again.complete(lease)
    assert len(await again.claim(5)) == 2
    await again.store.close()


async def test_a_copy_stands_alone_and_is_for_its_owner_only(world: World, tmp_path: Path) -> None:
    await world.add()
    target = tmp_path / "there"
    target.mkdir()
    await world.store.backup(str(target / "copy.db"))
    assert os.listdir(target) == ["copy.db"]
    assert stat.S_IMODE((target / "copy.db").stat().st_mode) == 0o600
    with closing(sqlite3.connect(target / "copy.db")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "delete"


async def test_what_is_there_is_not_overwritten(world: World, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    copy.write_text("precious")
    with pytest.raises(AlreadyThere, match="is there already"):
        await world.store.backup(str(copy))
    assert copy.read_text() == "precious"
    assert sorted(os.listdir(tmp_path)) == ["copy.db", *STORE_FILES]


async def test_what_a_killed_copy_left_is_no_hindrance(world: World, tmp_path: Path) -> None:
    await world.add(title="a")
    (tmp_path / "copy.db.partial").write_text("half a copy")
    await world.store.backup(str(tmp_path / "copy.db"))
    assert sorted(os.listdir(tmp_path)) == ["copy.db", *STORE_FILES]
    assert await titles_in(tmp_path / "copy.db") == ["a"]


async def test_the_store_itself_is_not_overwritten(world: World, tmp_path: Path) -> None:
    await world.add()
    with pytest.raises(AlreadyThere, match="is there already"):
        await world.store.backup(str(tmp_path / "queue.db"))
    await assert_sound(world.store)


async def test_a_copy_to_nowhere_is_refused(world: World, tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable):
        await world.store.backup(str(tmp_path / "nowhere" / "copy.db"))


async def test_a_copy_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    """The second half of the file is cut off, so the copy breaks off in the middle."""
    path = tmp_path / "queue.db"
    store = SqliteStore.open(str(path), ManualClock(), grouped=False)
    at_once(store.add([submission() for _ in range(500)], actor="user", queue_size=PLENTY))
    at_once(store.close())
    store = SqliteStore.open(str(path), ManualClock(), grouped=False)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(StoreDamaged):
        at_once(store.backup(str(tmp_path / "copy.db")))
    assert sorted(os.listdir(tmp_path)) == STORE_FILES
    at_once(store.close())


async def test_a_copy_is_one_moment_of_a_store_that_is_written_without_pause(
    tmp_path: Path,
) -> None:
    store = SqliteStore.open(str(tmp_path / "queue.db"), ManualClock())
    world = World(store, ManualClock())
    blob = "x" * 10_000
    await world.add_all(*[submission(title="0", command=blob) for _ in range(2000)])
    written = 0
    done = asyncio.Event()

    async def write_without_pause() -> None:
        nonlocal written
        while not done.is_set():
            written += 1
            pair = [submission(title=str(written)) for _ in range(2)]
            await world.add_all(*pair)

    writer = asyncio.ensure_future(write_without_pause())
    try:
        for number in range(3):
            await asyncio.wait_for(store.backup(str(tmp_path / f"copy{number}.db")), 30)
    finally:
        done.set()
        await writer
    await store.close()
    sizes = []
    for number in range(3):
        titles = await titles_in(tmp_path / f"copy{number}.db")
        newest = int(titles[-1])
        assert titles[2000:] == [str(n) for n in range(1, newest + 1) for _ in range(2)]
        sizes.append(len(titles))
    assert sizes == sorted(sizes)
    assert (tmp_path / "copy0.db").stat().st_size > len(blob) * 2000
    assert written > 10


async def test_reading_goes_on_while_a_copy_is_made(tmp_path: Path) -> None:
    store = SqliteStore.open(str(tmp_path / "queue.db"), ManualClock())
    world = World(store, ManualClock())
    await world.add_all(*[submission(command="x" * 10_000) for _ in range(5000)])
    backup = asyncio.ensure_future(store.backup(str(tmp_path / "copy.db")))
    await asyncio.sleep(0)
    await store.counts()
    assert not backup.done()
    await backup
    await store.close()
