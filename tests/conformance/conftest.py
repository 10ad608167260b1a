"""One suite for every engine. A new one is a row in ENGINES."""

import pickle
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest

from acode.clock import ManualClock
from acode.store.base import Store
from acode.store.memory import MemoryStore
from acode.store.sqlite import SqliteStore
from tests.conformance.kit import World, assert_sound, at_once
from tests.postgres.server import clean_database, own_database, rows_of


class Engine(NamedTuple):
    """How to open a store, and how to see all that it holds, hidden things too."""

    open: Callable[[Path, ManualClock], Store]
    dump: Callable[[Path, Any], Any]


def _sqlite(grouped: bool) -> Engine:
    def open_store(directory: Path, clock: ManualClock) -> Store:
        path = directory / "queue.db"
        path.write_bytes(_new_file())
        return SqliteStore.open(str(path), clock, grouped=grouped)

    return Engine(open_store, _rows)


@cache
def _new_file() -> bytes:
    """A store without tasks. Making one costs many an fsync, a copy costs none."""
    with TemporaryDirectory() as directory:
        path = Path(directory, "queue.db")
        at_once(SqliteStore.open(str(path), ManualClock(), grouped=False).close())
        return path.read_bytes()


def _rows(directory: Path, store: Store) -> list[str]:
    with closing(sqlite3.connect(directory / "queue.db")) as connection:
        return list(connection.iterdump())


def _attributes(directory: Path, store: Store) -> bytes:
    return pickle.dumps(vars(store))


def _postgres(grouped: bool) -> Engine:
    def open_store(_directory: Path, clock: ManualClock) -> Store:
        from acode.store.postgres import PostgresStore

        return PostgresStore.open(clean_database(), clock, grouped=grouped)

    return Engine(open_store, lambda *_: rows_of(own_database()))


ENGINES = {
    "memory": Engine(lambda _, clock: MemoryStore(clock), _attributes),
    "sqlite": _sqlite(grouped=True),
    "sqlite-direct": _sqlite(grouped=False),
    "postgres": _postgres(grouped=True),
    "postgres-direct": _postgres(grouped=False),
}
_NEEDS = {"postgres": "postgresql", "postgres-direct": "postgresql"}
PARAMETERS = [
    pytest.param(name, marks=pytest.mark.needs(_NEEDS[name]) if name in _NEEDS else ())
    for name in ENGINES
]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=PARAMETERS)
def engine(request: pytest.FixtureRequest) -> Engine:
    return ENGINES[request.param]


@pytest.fixture
async def world(engine: Engine, clock: ManualClock, tmp_path: Path) -> AsyncIterator[World]:
    """Every test ends with a look at the whole store: whatever was done, it must be sound."""
    store = engine.open(tmp_path, clock)
    yield World(store, clock)
    await assert_sound(store)
    await store.close()


@pytest.fixture
def dump(engine: Engine, world: World, tmp_path: Path) -> Callable[[], Any]:
    """Everything the store holds, to be compared with itself."""
    return lambda: engine.dump(tmp_path, world.store)
