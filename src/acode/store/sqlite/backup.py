"""Copying a store that is in use."""

import os
import sqlite3
from contextlib import closing

from acode.errors import AlreadyThere
from acode.store.sqlite.connection import connect, make_private, translated


def copy(source: str, target: str) -> None:
    """Copy to a new file; it appears under its name only when it is complete."""
    if os.path.exists(target):
        raise AlreadyThere(f"{target} is there already")
    partial = target + ".partial"
    _remove(partial)
    try:
        _copy(source, partial)
        os.rename(partial, target)
    finally:
        _remove(partial)


def _copy(source: str, target: str) -> None:
    with translated(target), closing(connect(source, readonly=True)) as origin:
        make_private(target)
        with closing(sqlite3.connect(target, isolation_level=None)) as copied:
            # In one step: a write by somebody else between two steps would begin it anew. A
            # reader keeps nobody from writing.
            origin.backup(copied)
            # The copy stands alone: no WAL beside it.
            copied.execute("PRAGMA journal_mode = DELETE")


def _remove(partial: str) -> None:
    for leftover in (partial, partial + "-journal", partial + "-wal", partial + "-shm"):
        if os.path.exists(leftover):
            os.unlink(leftover)
