"""The write-ahead log stays bounded, and comes back to its bound after somebody read for long."""

import asyncio
import os
import sqlite3
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from acode.clock import ManualClock
from acode.store.sql import group
from acode.store.sqlite import SqliteStore
from acode.store.sqlite.connection import WAL_LIMIT_BYTES
from tests.conformance.kit import World, submission

MEGABYTE = 1024 * 1024


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    store = SqliteStore.open(str(tmp_path / "queue.db"), ManualClock())
    yield World(store, ManualClock())
    await store.close()


async def write(world: World, times: int, text: str = "") -> None:
    for _ in range(times // 1000):
        batch = [submission(command=text) for _ in range(1000)]
        await asyncio.gather(*[world.add_all(one) for one in batch])


async def test_the_log_is_small_while_nobody_reads_for_long(world: World, tmp_path: Path) -> None:
    log = tmp_path / "queue.db-wal"
    for _ in range(10):
        await write(world, 1000)
        await world.store.counts()
        assert os.stat(log).st_size < 8 * MEGABYTE


async def test_the_log_shrinks_to_its_bound_after_a_long_reader_is_gone(
    world: World, tmp_path: Path
) -> None:
    log = tmp_path / "queue.db-wal"
    await world.add()
    reader = sqlite3.connect(tmp_path / "queue.db", isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM tasks").fetchone() == (1,)
    await write(world, 20_000, "x" * 3000)
    assert os.stat(log).st_size > WAL_LIMIT_BYTES, "else this test proves nothing"
    assert reader.execute("SELECT count(*) FROM tasks").fetchone() == (1,)
    reader.close()
    await write(world, 2000)
    assert os.stat(log).st_size <= WAL_LIMIT_BYTES


async def test_the_log_is_emptied_while_nobody_writes(world: World, tmp_path: Path) -> None:
    for _ in range(group.LULL_COMMITS):
        await world.add()
    assert frames(tmp_path) > group.LULL_COMMITS, "else this test proves nothing"
    async with asyncio.timeout(10):
        # Not even the next writer has to begin it anew.
        while frames(tmp_path) > group.LULL_COMMITS:  # noqa: ASYNC110 -- a thread does it
            await asyncio.sleep(0.01)
    await world.add()
    assert await world.store.check() == []


def frames(directory: Path) -> int:
    """How many pages the log holds, as its index in shared memory says."""
    index = (directory / "queue.db-shm").read_bytes()
    return int.from_bytes(index[16:20], sys.byteorder)
