"""From the address of a store to an open one."""

import os
from typing import TYPE_CHECKING

from acode.clock import Clock
from acode.errors import ConfigError, ToolMissing

if TYPE_CHECKING:
    from acode.store.postgres import PostgresStore
    from acode.store.sql.store import SqlStore

SQLITE = "sqlite:///"
POSTGRES = "postgresql://"


def is_shared(url: str | None) -> bool:
    """Whether other machines may use the store, too."""
    return url is not None and url.startswith(POSTGRES)


def file_of(url: str | None, project_file: str) -> str:
    """The file of a SQLite store; a relative one is below the directory of the project."""
    if url is None:
        return project_file
    path = os.path.expanduser(url.removeprefix(SQLITE))
    return os.path.join(os.path.dirname(os.path.dirname(project_file)), path)


def open_store(
    url: str | None, project_file: str, clock: Clock, ageing_ms: int, *, grouped: bool
) -> "SqlStore":
    """The store of this address; without one, the file of the project."""
    if url is not None and is_shared(url):
        return open_postgres(url, ageing_ms, grouped=grouped)
    if url is not None and not url.startswith(SQLITE):
        raise ConfigError("store.url: neither sqlite:///FILE nor postgresql://…")
    from acode.store.sqlite import SqliteStore

    path = file_of(url, project_file)
    return SqliteStore.open(path, clock, ageing_ms=ageing_ms, grouped=grouped)


def open_postgres(url: str, ageing_ms: int, *, grouped: bool) -> "PostgresStore":
    """The store on a server. Time is the server's."""
    try:
        import psycopg  # noqa: F401 -- whether it can be used
    except ImportError:
        raise ToolMissing(
            "the queue is in PostgreSQL, and the driver for it is not installed",
            "pip install 'acode[postgres]'",
        ) from None
    from acode.store.postgres import PostgresStore

    return PostgresStore.open(url, ageing_ms=ageing_ms, grouped=grouped)
