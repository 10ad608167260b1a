"""Whose turn it is to write: one that stops or dies keeps nobody for ever."""

import errno
import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from acode.clock import SystemClock
from acode.errors import StoreBusy
from acode.store.base import Claim, TaskQuery
from acode.store.sqlite import SqliteStore, log
from acode.store.sqlite.book import SqliteBook
from tests.conformance.kit import PLENTY, at_once, submission
from tests.crash.processes import CONTEXT, child, ends_of

PAGES = 1000
"""After so many, SQLite empties the log."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore.open(str(path), SystemClock(), grouped=False)
    yield opened
    at_once(opened.close())


def add(store: SqliteStore) -> None:
    at_once(store.add([submission()], actor="user", queue_size=PLENTY))


def tasks_in(store: SqliteStore) -> int:
    return len(at_once(store.find(TaskQuery(limit=PLENTY))))


def stop_inside(path: str, heir: str) -> None:
    """Stop in the middle of a commit, with a child that outlives whatever comes."""
    store = SqliteStore.open(path, SystemClock(), grouped=False)
    commit = store._book.commit

    def stopping(writes: object, **how: bool) -> object:
        with store._book._log.turn():
            if not (pid := os.fork()):
                signal.pause()
            Path(heir).write_text(str(pid))
            os.kill(os.getpid(), signal.SIGSTOP)
        return commit(writes, **how)  # type: ignore[arg-type]

    store._book.commit = stopping  # type: ignore[method-assign, assignment]
    add(store)
    at_once(store.close())


def claim_when_rung(path: str, wire: Connection) -> None:
    """Claim at the first ring, as a daemon does."""
    store = SqliteStore.open(path, SystemClock(), grouped=False)
    wire.send("ready")
    wire.recv()
    wire.send("rung")
    leases = at_once(store.claim(Claim(1, lambda tasks: ["worker"] * len(tasks))))
    wire.send([lease.task.id for lease in leases])
    at_once(store.close())


def test_whoever_is_rung_for_waits_for_the_task(path: Path, store: SqliteStore) -> None:
    """The bell is rung before the commit, so that others wake up meanwhile."""
    wire, other_end = CONTEXT.Pipe()
    added, seen_when_rung = submission(), []

    def ring() -> None:
        wire.send("!")
        assert wire.recv() == "rung"
        with closing(sqlite3.connect(path)) as look:
            seen_when_rung.append(look.execute("SELECT count(*) FROM tasks").fetchone()[0])

    with child(claim_when_rung, str(path), other_end):
        assert wire.recv() == "ready"
        at_once(store.add([added], actor="user", queue_size=PLENTY, ring=ring))
        assert wire.poll(30)
        assert wire.recv() == [added.id]
    assert seen_when_rung == [0]


@pytest.fixture
def heir(tmp_path: Path) -> Iterator[Path]:
    """Where the child of the one that stops writes its pid."""
    file = tmp_path / "heir"
    yield file
    with suppress(FileNotFoundError):
        os.kill(int(file.read_text()), signal.SIGKILL)


def is_stopped(pid: int | None) -> bool:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"


def wait_for(condition: Callable[[], bool]) -> None:
    while not condition():
        os.sched_yield()


def test_a_stopped_writer_makes_others_give_up_and_goes_on_later(
    path: Path, heir: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with child(stop_inside, str(path), str(heir)) as stopped:
        wait_for(lambda: is_stopped(stopped.pid))
        with monkeypatch.context() as patch:
            patch.setattr(log, "BUSY_SECONDS", 0.2)
            with pytest.raises(StoreBusy, match=r"keeps .* locked") as refused:
                add(store)
        assert refused.value.hint
        assert tasks_in(store) == 0, "to read is possible all the time"
        os.kill(stopped.pid or 0, signal.SIGCONT)
        add(store)
        stopped.join(30)
        assert stopped.exitcode == 0
    assert tasks_in(store) == 2


def test_a_writer_that_dies_leaves_its_turn_although_a_child_lives_on(
    path: Path, heir: Path, store: SqliteStore
) -> None:
    with child(stop_inside, str(path), str(heir)) as stopped:
        wait_for(lambda: is_stopped(stopped.pid))
        stopped.kill()
        add(store)
        assert int(heir.read_text()) > 0
    assert tasks_in(store) == 1


def add_one_by_one(path: str, count: int) -> None:
    store = SqliteStore.open(path, SystemClock(), grouped=False)
    for _ in range(count):
        add(store)
    at_once(store.close())


def test_the_log_stays_small_although_many_processes_write_at_once(
    path: Path, store: SqliteStore
) -> None:
    assert ends_of(*[(add_one_by_one, (str(path), 150))] * 8) == [0] * 8
    assert tasks_in(store) == 1200
    assert Path(f"{path}-wal").stat().st_size < 2 * PAGES * 4096


def test_a_file_system_without_such_locks_is_no_reason_to_refuse(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr("acode.store.sqlite.log.os.lockf", refuse)
    add(store)
    assert tasks_in(store) == 1


def test_everything_is_prepared_before_others_have_to_wait(store: SqliteStore) -> None:
    prepared: list[int] = []

    def note(action: int, *_: object) -> int:
        prepared.append(action)
        return sqlite3.SQLITE_OK

    book: SqliteBook = store._book
    book.connection.set_authorizer(note)
    book.rehearse_addition()
    assert prepared
    prepared.clear()
    add(store)
    assert set(prepared) == {sqlite3.SQLITE_TRANSACTION}
