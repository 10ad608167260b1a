"""Connecting: settings of the line, migrations, and what PostgreSQL's errors mean to a user."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg
from psycopg import Connection, errors
from psycopg.conninfo import conninfo_to_dict

from acode.clock import RemoteClock
from acode.errors import (
    AcodeError,
    DiskFull,
    StoreDamaged,
    StoreRefused,
    StoreTooNew,
    StoreUnavailable,
)
from acode.store.postgres.address import Address
from acode.store.postgres.transaction import statement
from acode.store.postgres.wire import Wire

SCHEMA = os.path.join(os.path.dirname(__file__), "schema")
_LINE: dict[str, Any] = {
    "application_name": "acode",
    "connect_timeout": 10,
    "client_encoding": "utf8",
    # A line that is cut without a word is noticed within 20 seconds.
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
# Whoever wants to hear what the driver has to say of a broken line can; nobody has to.
logging.getLogger("psycopg").addHandler(logging.NullHandler())


class Line(NamedTuple):
    """An open connection, and whether it goes straight to the server."""

    connection: Connection
    wire: Wire
    straight: bool
    """Not through a pooler, which may give every transaction another server process."""


def connect(address: Address, clock: RemoteClock) -> Line:
    """A connection to a database with the newest schema."""
    with translated(address):
        # What the address says counts.
        wanted = {**_LINE, **conninfo_to_dict(address.conninfo)}
        connection = psycopg.connect(autocommit=True, **wanted)
    try:
        with translated(address):
            straight, has_schema = _look(connection, clock)
            _bring_up_to_date(connection, address, has_schema)
    except BaseException:
        connection.close()
        raise
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    # A pooler's server processes do not know what another one has prepared.
    return Line(connection, Wire(connection, prepares=straight), straight)


def _look(connection: Connection, clock: RemoteClock) -> tuple[bool, bool]:
    connection.prepare_threshold = None
    row = connection.execute(statement("look").encode()).fetchone()
    if row is None:
        raise StoreDamaged("the server did not say what time it is")
    now, pid, has_version, _ = row
    clock.tell(now)
    return pid == connection.info.backend_pid, has_version


def newest_version() -> int:
    """The schema version of this acode: one file each, numbered from 1."""
    return len([name for name in os.listdir(SCHEMA) if name.endswith(".sql")])


def version_of(connection: Connection) -> int:
    """The schema version of the database."""
    row = connection.execute(statement("schema_version").encode()).fetchone()
    if row is None:
        raise StoreDamaged("the schema acode has no version")
    return int(row[0])


def _bring_up_to_date(connection: Connection, address: Address, is_there: bool) -> None:
    """Make the newest schema of what is there; many processes may try at once."""
    found = version_of(connection) if is_there else 0
    if found == newest_version():
        return
    if found > newest_version():
        raise StoreTooNew(
            f"{address.shown} has schema {found}, this acode knows {newest_version()}"
        )
    with connection.transaction():
        connection.execute(statement("lock_schema").encode())
        row = connection.execute(statement("look").encode()).fetchone()
        has_version, has_schema = (row[2], row[3]) if row else (False, False)
        if not has_version:
            _begin(connection, has_schema)
        for version in range(version_of(connection) + 1, newest_version() + 1):
            with open(os.path.join(SCHEMA, f"{version:04}.sql"), "rb") as file:
                connection.execute(file.read())
        connection.execute(statement("set_version").encode(), {"version": newest_version()})


def _begin(connection: Connection, has_schema: bool) -> None:
    if not has_schema:
        connection.execute(statement("make_schema").encode())
    connection.execute(statement("make_version").encode())
    connection.execute(statement("first_version").encode())


@contextmanager
def translated(address: Address) -> Iterator[None]:
    """PostgreSQL's errors in the user's words, without any secret."""
    try:
        yield
    except psycopg.Error as error:
        # Not chained: a traceback must not show what the driver was given.
        raise _translation(error, address) from None


_REFUSALS = (
    ("password authentication failed", "the server does not accept the password"),
    ("no password supplied", "the server wants a password"),
    ("no pg_hba.conf entry", "the server lets nobody in from here"),
    ("role", "the server does not know the user"),
    ("database", "there is no such database"),
    ("permission denied", "the user lacks rights"),
)
_CURES = {
    "there is no such database": "make it (createdb NAME), or correct store.url",
    "the user lacks rights": "GRANT CREATE ON DATABASE …, or let an administrator run "
    "CREATE SCHEMA acode AUTHORIZATION that user",
}


def _translation(error: psycopg.Error, address: Address) -> AcodeError:
    said = address.hide(" ".join(str(error).split()))
    for kinds, made, message in (
        (errors.DiskFull, DiskFull, "no room left on the disk of the server"),
        (errors.InsufficientPrivilege, StoreRefused, "the user lacks rights"),
        (errors.ReadOnlySqlTransaction, StoreRefused, "the server only lets us read"),
        (errors.UndefinedTable, StoreDamaged, "the schema acode is not whole"),
        (errors.UndefinedColumn, StoreDamaged, "the schema acode is not whole"),
        ((psycopg.OperationalError, psycopg.InterfaceError), StoreUnavailable, ""),
        (psycopg.IntegrityError, StoreDamaged, "the store contradicts itself"),
    ):
        if isinstance(error, kinds):
            return _refusal(said, address) or made(
                f"{address.shown}: {message or 'cannot be reached'} ({said})", _CURES.get(message)
            )
    return StoreDamaged(f"{address.shown}: {said}")


def _refusal(said: str, address: Address) -> AcodeError | None:
    """What the server says to somebody whom it does not let in."""
    if "FATAL" not in said and "fe_sendauth" not in said:
        return None
    for words, message in _REFUSALS:
        if words in said and ("does not exist" in said or words not in ("role", "database")):
            return StoreRefused(f"{address.shown}: {message} ({said})", _CURES.get(message))
    return None
