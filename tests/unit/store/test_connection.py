"""Opening the file: how it is set, how it is made, and what is refused."""

import os
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from acode.clock import ManualClock
from acode.errors import StoreDamaged, StoreTooNew, StoreUnusable
from acode.store.base import TaskQuery
from acode.store.sqlite import SqliteStore
from acode.store.sqlite.connection import connect, newest_version, version_of
from tests.conformance.kit import PLENTY, World, at_once, submission
from tests.crash.processes import CONTEXT, ends_of


def open_store(path: Path) -> SqliteStore:
    return SqliteStore.open(str(path), ManualClock(), grouped=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.db"


def add_tasks(path: Path, count: int) -> None:
    store = open_store(path)
    batch = [submission(title="x" * 500) for _ in range(count)]
    at_once(store.add(batch, actor="user", queue_size=PLENTY))
    at_once(store.close())


# How it is set


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize(
    ("pragma", "value"), [("journal_mode", "wal"), ("synchronous", 1), ("foreign_keys", 1)]
)
def test_every_connection_is_strict_and_leaves_waiting_for_the_disk_to_us(
    path: Path, readonly: bool, pragma: str, value: object
) -> None:
    connect(str(path)).close()
    with closing(connect(str(path), readonly=readonly)) as connection:
        assert connection.execute(f"PRAGMA {pragma}").fetchone()[0] == value


def test_a_reader_cannot_write(path: Path) -> None:
    connect(str(path)).close()
    refused = pytest.raises(sqlite3.OperationalError, match="readonly")
    with closing(connect(str(path), readonly=True)) as reader, refused:
        reader.execute("DELETE FROM tasks")


def test_the_file_is_for_its_owner_only(path: Path) -> None:
    """It holds the environment of tasks."""
    store = open_store(path)
    at_once(World(store, ManualClock()).add())
    for name in ("queue.db", "queue.db-wal", "queue.db-shm"):
        assert stat.S_IMODE((path.parent / name).stat().st_mode) == 0o600
    at_once(store.close())


def test_the_store_tells_where_it_is_and_how_large(path: Path) -> None:
    store = open_store(path)
    at_once(World(store, ManualClock()).add())
    about = store.describe()
    assert about["path"] == str(path)
    assert about["bytes"] == path.stat().st_size
    assert about["walBytes"] == Path(f"{path}-wal").stat().st_size > 0
    assert about["schemaVersion"] == newest_version()
    at_once(store.close())


# How it is made


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    with closing(connect(str(path))) as connection:
        assert version_of(connection) == newest_version()
    assert at_once(open_store(path).check()) == []


def test_a_store_is_opened_again_as_it_was(path: Path) -> None:
    add_tasks(path, 3)
    store = open_store(path)
    assert len(at_once(store.find(TaskQuery()))) == 3
    at_once(store.close())


def open_and_add(path: str, start: Barrier) -> None:
    start.wait()
    store = SqliteStore.open(path, ManualClock(), grouped=False)
    at_once(store.add([submission()], actor="user", queue_size=PLENTY))
    at_once(store.close())


def test_a_store_is_made_although_another_process_has_the_lock_for_a_moment(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor(1) as elsewhere:
            making = elsewhere.submit(connect, str(path))
            with pytest.raises(TimeoutError):
                making.result(0.1)
            other.execute("ROLLBACK")
            making.result(10).close()


@pytest.mark.parametrize("attempt", range(3))
def test_many_processes_make_the_store_at_once(path: Path, attempt: int) -> None:
    start = CONTEXT.Barrier(12)
    assert ends_of(*[(open_and_add, (str(path), start))] * 12) == [0] * 12
    store = open_store(path)
    assert len(at_once(store.find(TaskQuery()))) == 12
    assert at_once(store.check()) == []
    at_once(store.close())


# What is refused


def test_a_newer_schema_is_refused_and_left_alone(path: Path) -> None:
    add_tasks(path, 1)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {newest_version() + 1}")
    before = path.read_bytes()
    with pytest.raises(StoreTooNew, match=f"this acode knows {newest_version()}"):
        open_store(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", [0, 1, 7])
def test_the_database_of_something_else_is_refused_and_left_alone(path: Path, version: int) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"CREATE TABLE bookmarks (url); PRAGMA user_version = {version}")
    before = path.read_bytes()
    with pytest.raises(StoreDamaged, match="something else"):
        open_store(path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["queue.db"]


@pytest.mark.parametrize(
    "content",
    [b"not a database at all\n" * 100, b"\0" * 5000, b"xy"],
    ids=["text", "zeros", "tiny"],
)
def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreDamaged):
        open_store(path)
    assert path.read_bytes() == content


def test_a_directory_is_refused(path: Path) -> None:
    path.mkdir()
    with pytest.raises(StoreUnusable, match="cannot be opened"):
        open_store(path)


def test_a_missing_directory_is_refused(path: Path) -> None:
    with pytest.raises(StoreUnusable, match="cannot be opened"):
        open_store(path.parent / "nowhere" / "queue.db")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_may_not_be_written_is_refused(path: Path) -> None:
    path.parent.chmod(0o500)
    try:
        with pytest.raises(StoreUnusable):
            open_store(path)
    finally:
        path.parent.chmod(0o700)


# Damage


def use_everything(path: Path) -> list[str]:
    """Open the store and look at all that it holds; what `check` finds wrong."""
    store = open_store(path)
    try:
        world = World(store, ManualClock())
        at_once(world.everything())
        at_once(store.moves(0, PLENTY))
        at_once(store.counts())
        at_once(store.dead_letters())
        at_once(store.leases())
        wrong = at_once(store.check())
        for lease in at_once(world.claim(5)):
            at_once(world.complete(lease))
        at_once(world.add())
        return wrong
    finally:
        at_once(store.close())


def test_a_truncated_file_is_damaged_wherever_it_was_cut(path: Path) -> None:
    add_tasks(path, 50)
    whole = path.read_bytes()
    for size in [*range(2, 1000, 97), *range(1000, len(whole), 4099), len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(StoreDamaged):
            raise StoreDamaged("\n".join(use_everything(path)))


def test_damage_anywhere_gives_words_and_never_a_traceback(path: Path) -> None:
    """A page at a time is overwritten; whatever is done, only errors with a code come out."""
    add_tasks(path, 50)
    whole = path.read_bytes()
    for place in range(0, len(whole), 1021):
        path.write_bytes(whole[:place] + b"\xff" * 64 + whole[place + 64 :])
        with suppress(StoreDamaged, StoreTooNew):
            use_everything(path)
