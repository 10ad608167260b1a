"""Opening the file: pragmas, migrations, and what SQLite's errors mean to a user."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from acode.clock import Deadline
from acode.errors import (
    AcodeError,
    DiskFull,
    StoreBusy,
    StoreDamaged,
    StoreTooNew,
    StoreUnusable,
)

T = TypeVar("T")

SCHEMA = os.path.join(os.path.dirname(__file__), "schema")
BUSY_SECONDS = 30.0
RETRY_SECONDS = 0.003
"""With eight writers, 1 ms gave less throughput and 8 ms no more."""
CACHED_STATEMENTS = 512
"""Set-based queries come in up to 64 lengths each."""
WAL_LIMIT_BYTES = 64 * 1024 * 1024
APPLICATION_ID = 0x61636F64
"""Marks the file as ours: `acod`."""

_PRAGMAS = (
    # What must not be lost is brought to the disk by `Book.sync`, when the lock is free again.
    "PRAGMA synchronous = NORMAL",
    f"PRAGMA journal_size_limit = {WAL_LIMIT_BYTES}",
    "PRAGMA cache_size = -32768",
    "PRAGMA temp_store = MEMORY",
)


def connect(path: str, *, readonly: bool = False) -> sqlite3.Connection:
    """A connection to an existing or new store, with the newest schema."""
    with translated(path):
        make_private(path)
        connection = sqlite3.connect(
            path,
            isolation_level=None,
            check_same_thread=False,
            timeout=BUSY_SECONDS,
            cached_statements=CACHED_STATEMENTS,
        )
        try:
            _refuse_foreign(connection, path)
            insist(lambda: connection.execute("PRAGMA journal_mode = WAL"))
            for pragma in _PRAGMAS:
                connection.execute(pragma)
            if readonly:
                connection.execute("PRAGMA query_only = ON")
            else:
                # From here on it is we who wait for locks, see `insist`.
                connection.execute("PRAGMA busy_timeout = 0")
                migrate(connection)
            # Not before: a table that is copied to change it is dropped, and all that points to it
            # with it.
            connection.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            connection.close()
            raise
        return connection


def make_private(path: str) -> None:
    """A new file is for its owner only: it will hold the environment of tasks."""
    if path != ":memory:" and not os.path.exists(path):
        with suppress(OSError):  # SQLite says better what is wrong
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def newest_version() -> int:
    """The schema version of this acode: one file each, numbered from 1."""
    return len([name for name in os.listdir(SCHEMA) if name.endswith(".sql")])


def version_of(connection: sqlite3.Connection) -> int:
    """The schema version of the file."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the file to the newest schema; many processes may try at once."""
    newest = newest_version()
    if version_of(connection) == newest:
        return
    with transaction(connection):
        found = version_of(connection)
        if found > newest:
            raise StoreTooNew(f"the store has schema {found}, this acode knows {newest}")
        for version in range(found + 1, newest + 1):
            _run_script(connection, version)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {newest}")


def empty_log(connection: sqlite3.Connection) -> None:
    """Carry the log over to the file, and begin it anew."""
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    with transaction(connection, patient=False):
        # Changes nothing, but is a commit.
        connection.execute(f"PRAGMA user_version = {version_of(connection)}")


def _refuse_foreign(connection: sqlite3.Connection, path: str) -> None:
    """Leave the database of another program alone, before anything is set in it."""
    # In this order: whoever makes the store meanwhile writes both at once.
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    mark = connection.execute("PRAGMA application_id").fetchone()[0]
    if tables and mark != APPLICATION_ID:
        raise StoreDamaged(f"{path} is a database of something else, not an acode store")


def _run_script(connection: sqlite3.Connection, version: int) -> None:
    path = os.path.join(SCHEMA, f"{version:04}.sql")
    with open(path, encoding="utf-8") as file:
        script = file.read()
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""


@contextmanager
def transaction(connection: sqlite3.Connection, *, patient: bool = True) -> Iterator[None]:
    """Commit everything inside or nothing."""
    begin(connection, patient=patient)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A failed COMMIT (disk full) may have rolled back by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def begin(connection: sqlite3.Connection, *, patient: bool = True) -> None:
    """Take the write lock."""
    if patient:
        insist(lambda: connection.execute("BEGIN IMMEDIATE"))
    else:
        connection.execute("BEGIN IMMEDIATE")


def insist(action: Callable[[], T]) -> T:
    """Wait for a lock, trying often: SQLite sleeps up to 100 ms, or does not try again at all."""
    deadline = Deadline(BUSY_SECONDS)
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            if not _is(error, sqlite3.SQLITE_BUSY) or not deadline.rest(RETRY_SECONDS):
                raise


def _is(error: sqlite3.Error, code: int) -> bool:
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF == code


@contextmanager
def translated(path: str) -> Iterator[None]:
    """SQLite's errors in the user's words."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translation(error, path) from error
    except UnicodeDecodeError as error:
        # Even SQLite's messages quote what they stumble over.
        raise StoreDamaged(f"{path} is damaged ({error})") from error


def _translation(error: sqlite3.Error, path: str) -> AcodeError:
    if str(error).startswith("Could not decode"):
        # Has no number, and quotes what it could not read.
        return StoreDamaged(f"{path} is damaged (text that is not UTF-8)")
    for code, kind, message in (
        (sqlite3.SQLITE_FULL, DiskFull, "no room left on the disk of {path}"),
        (sqlite3.SQLITE_BUSY, StoreBusy, "another process keeps {path} locked"),
        (sqlite3.SQLITE_LOCKED, StoreBusy, "another process keeps {path} locked"),
        (sqlite3.SQLITE_CORRUPT, StoreDamaged, "{path} is damaged ({error})"),
        (sqlite3.SQLITE_ERROR, StoreDamaged, "{path} is damaged ({error})"),
        (sqlite3.SQLITE_CONSTRAINT, StoreDamaged, "{path} contradicts itself ({error})"),
        (sqlite3.SQLITE_NOTADB, StoreDamaged, "{path} is not a database"),
        (sqlite3.SQLITE_CANTOPEN, StoreUnusable, "{path} cannot be opened"),
        (sqlite3.SQLITE_READONLY, StoreUnusable, "{path} cannot be written"),
        (sqlite3.SQLITE_PERM, StoreUnusable, "{path} cannot be written"),
    ):
        if _is(error, code):
            return kind(message.format(path=path, error=error))
    return StoreUnusable(f"{path}: {error}")
