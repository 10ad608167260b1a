"""Copying a store that is in use."""

import os
import sqlite3

from acode.errors import UsageError
from acode.store.sqlite.connection import connect, translated

PAGES_PER_STEP = 2000
"""Copied at a time, so that writers get their turn in between."""


def copy(source: str, target: str) -> None:
    """Copy to a new file; it appears under its name only when it is complete."""
    if os.path.exists(target):
        raise UsageError(f"{target} is there already", "choose another name, or remove it first")
    partial = target + ".partial"
    try:
        _copy(source, partial)
        os.rename(partial, target)
    finally:
        for leftover in (partial, partial + "-wal", partial + "-shm"):
            if os.path.exists(leftover):
                os.unlink(leftover)


def _copy(source: str, target: str) -> None:
    origin = connect(source, readonly=True)
    try:
        with translated(target):
            copied = sqlite3.connect(target, isolation_level=None)
            try:
                origin.backup(copied, pages=PAGES_PER_STEP)
                # The copy stands alone: no WAL beside it.
                copied.execute("PRAGMA journal_mode = DELETE")
            finally:
                copied.close()
    finally:
        origin.close()
