"""A store of every released schema opens, is whole, and goes on."""

import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from acode.clock import ManualClock
from acode.model.ending import Exited, TimedOut, Usage
from acode.model.state import Status
from acode.model.task import CancelWish
from acode.model.verdict import Cancel
from acode.store.base import TaskQuery
from acode.store.sqlite import SqliteStore
from acode.store.sqlite.connection import newest_version
from tests.conformance.kit import FAILURE, PLENTY, TIMEOUT, World, assert_sound, at_once, report

GOLDEN = Path(__file__).parents[2] / "golden"
LATER = 1_800_000_000_000
FILES = sorted(GOLDEN.glob("queue-*.db"))


def test_there_is_a_file_of_every_schema() -> None:
    assert [file.name for file in FILES] == [
        f"queue-{version:04}.db" for version in range(1, newest_version() + 1)
    ]


def schema(path: Path) -> dict[str, str]:
    at_once(SqliteStore.open(str(path), ManualClock(), grouped=False).close())
    with closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute("SELECT name, sql FROM sqlite_schema"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_migrated_store_has_the_schema_of_a_new_one(file: Path, tmp_path: Path) -> None:
    """And so a released schema file is never changed, only followed by another."""
    assert schema(Path(shutil.copy(file, tmp_path))) == schema(tmp_path / "new.db")


@pytest.fixture(params=FILES, ids=lambda file: file.stem)
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    path = shutil.copy(request.param, tmp_path)
    clock = ManualClock(LATER)
    store = SqliteStore.open(str(path), clock)
    yield World(store, clock)
    await assert_sound(store)
    await store.close()


async def by_title(world: World) -> dict[str, str]:
    tasks = await world.store.find(TaskQuery(limit=PLENTY))
    return {str(task.spec.title): task.id for task in tasks}


async def test_an_old_store_opens_and_is_whole(world: World) -> None:
    assert isinstance(world.store, SqliteStore)
    assert world.store.describe()["schemaVersion"] == newest_version()
    await assert_sound(world.store)
    assert {task.status for task in await world.store.find(TaskQuery())} == set(Status)


async def test_everything_in_it_can_be_read(world: World) -> None:
    ids = await by_title(world)
    completed = await world.store.get(ids["completed"])
    assert completed.result is not None
    assert (completed.result.value, completed.spec.env) == ({"ok": True}, {"A": "b"})
    (letter,) = await world.store.dead_letters()
    assert (letter.task_id, letter.attempt_count) == (ids["failed"], 2)
    assert letter.checkpoint == {"fetch": {"pages": 3}}
    first, second = (await world.store.record(ids["failed"])).attempts
    assert (first.number, first.error, first.ending) == (1, TIMEOUT, TimedOut(1.0))
    assert (second.number, second.error, second.ending) == (2, FAILURE, Exited(0))
    assert second.started_at <= (second.ended_at or 0)
    assert second.usage == Usage(cpu_seconds=0.5, max_memory_bytes=1024)
    (wished,) = await world.store.wishes()
    assert wished.cancel is CancelWish.FORCE
    archived = await world.store.record(await world.store.resolve("01HF7YAT000000000000000001"))
    assert archived.task.spec.title == "archived"
    assert (await world.store.counts()).paused


async def test_it_goes_on_where_it_was(world: World) -> None:
    ids = await by_title(world)
    assert await world.claim(PLENTY) == []
    await world.store.pause(False, actor="user")
    await world.store.retry(ids["failed"], actor="user")
    await world.store.retry(ids["cancelled"], actor="user")
    leases = {lease.task.spec.title: lease for lease in await world.claim(PLENTY)}
    assert set(leases) == {"failed", "cancelled", "released", "delayed"}
    assert leases["failed"].steps == {"fetch": {"pages": 3}}
    assert leases["cancelled"].steps == {"half": 0.5}
    assert (leases["released"].number, leases["released"].task.attempt_count) == (2, 1)
    for lease in leases.values():
        await world.complete(lease)
    (running,) = await world.store.leases()
    await world.store.finish(report(running, Cancel(), LATER))
    assert await world.status(ids["blocked"]) is Status.BLOCKED
    await world.store.retry(running.task.id, actor="user")
    await world.complete(await world.lease(running.task.id))
    await world.complete(await world.lease(ids["blocked"]))
    assert (await world.store.counts()).by_status[Status.COMPLETED] == 7
