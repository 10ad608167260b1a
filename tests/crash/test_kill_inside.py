"""Killed inside a write, at every statement and at every place in the log: all of it or nothing."""

import shutil
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.kit import PLENTY, World, assert_sound, at_once
from tests.crash.processes import end_of
from tests.crash.writes import WRITES, make_until, open_world, prepare, write_until

FRAME = 24 + 4096
LOG_HEADER = 32


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("prepared") / "queue.db"
    at_once(prepare(str(path)))
    return path


@pytest.fixture
def path(prepared: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(prepared, tmp_path))


def state(path: Path) -> list[Any]:
    """Everything that the store holds, but for the tokens, which are drawn by lot."""
    world = open_world(str(path))
    at_once(assert_sound(world.store))
    store = world.store
    held = [
        at_once(World(store, world.clock).everything()),
        at_once(store.moves(0, PLENTY)),
        at_once(store.dead_letters()),
        at_once(store.counts()),
        at_once(store.wishes()),
    ]
    at_once(store.close())
    with closing(sqlite3.connect(path)) as connection:
        tables = ("archive", "checkpoints", "dependencies", "flags")
        held += [connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables]
    return held


def fresh_copies(path: Path) -> Iterator[Path]:
    """As many as are asked for, in directories of their own."""
    number = 0
    while True:
        number += 1
        directory = path.parent / str(number)
        directory.mkdir()
        yield Path(shutil.copy(path, directory))


@pytest.mark.parametrize("name", WRITES)
def test_a_write_that_is_killed_at_any_statement_has_not_been(path: Path, name: str) -> None:
    seen = [state(path)]
    for copy in fresh_copies(path):
        end = end_of(write_until, str(copy), name, len(seen))
        seen.append(state(copy))
        if end == 0:
            break
        assert end == -signal.SIGKILL
    before, after = seen[0], seen[-1]
    assert before != after
    assert len(seen) > 4
    assert seen == [before] * seen.count(before) + [after] * seen.count(after)
    # Only the archive goes on after its commit: it looks for more.
    assert seen.count(after) == 1 or name == "archive"


@pytest.mark.parametrize("name", WRITES)
def test_a_write_that_is_torn_anywhere_in_the_log_has_not_been(path: Path, name: str) -> None:
    """A kill inside the commit leaves the beginning of what it writes to the log."""
    before = state(path)
    assert end_of(write_until, str(path), name, 0) == 0
    log = Path(f"{path}-wal").read_bytes()
    copies = fresh_copies(path)
    for size in cuts(len(log)):
        copy = next(copies)
        Path(f"{copy}-wal").write_bytes(log[:size])
        if size < len(log):
            assert state(copy) == before
        else:
            assert state(copy) != before


def cuts(size: int) -> Iterator[int]:
    """Every end of a frame, a byte to either side of it, and somewhere inside."""
    for end in range(LOG_HEADER, size + 1, FRAME):
        yield from {max(0, end - 1), end, min(size, end + 1), min(size, end + 2000)}
    yield size


def test_a_store_that_is_killed_while_it_is_made_is_made_again(tmp_path: Path) -> None:
    kills = 0
    while True:
        path = tmp_path / f"{kills}.db"
        end = end_of(make_until, str(path), kills + 1)
        world = open_world(str(path))
        at_once(world.add())
        at_once(assert_sound(world.store))
        at_once(world.store.close())
        if end == 0:
            break
        assert end == -signal.SIGKILL
        kills += 1
    assert kills > 20
