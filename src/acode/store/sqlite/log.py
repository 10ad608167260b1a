"""The file beside the database that every commit is appended to."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from acode.clock import Deadline, ticks
from acode.errors import StoreBusy, StoreUnusable
from acode.store.sqlite.connection import BUSY_SECONDS, RETRY_SECONDS

SOON_SECONDS = 0.0002
"""The commit of another process is nearly always over by then."""


class Log:
    """Whose turn it is to append, and when everything is on disk. There is none in memory."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: int | None = None

    @contextmanager
    def turn(self, *, patient: bool = True) -> Iterator[None]:
        """Keep other processes from writing; without patience, not if another one goes on.

        SQLite's own lock decides. This one stands before it because it costs little to ask for,
        and because it is kept while SQLite empties the log after a commit: if others appended
        meanwhile, the log could not begin anew, and would grow and slow everybody down.
        """
        file = self._opened()
        if file is None:
            yield
            return
        if not (_gets_turn if patient else _gets_turn_soon)(file):
            raise StoreBusy(f"another process keeps {self._path} locked")
        try:
            yield
        finally:
            with suppress(OSError):  # no such locks here
                os.lockf(file, os.F_ULOCK, 1)

    def sync(self) -> None:
        """Bring everything that is committed to the disk, whoever committed it."""
        file = self._opened()
        if file is None:
            return
        try:
            os.fdatasync(file)
        except OSError as error:
            what = f"{self._path} cannot be brought to the disk: {error.strerror}"
            raise StoreUnusable(what) from error

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _opened(self) -> int | None:
        # It stays the same file as long as the store is open. SQLite has no locks on it, so that
        # to close it takes none away.
        if self._file is None:
            with suppress(FileNotFoundError):
                self._file = os.open(
                    f"{os.path.realpath(self._path)}-wal", os.O_RDWR | os.O_CLOEXEC
                )
        return self._file


def _gets_turn(file: int) -> bool:
    deadline = Deadline(BUSY_SECONDS)
    while not _gets_turn_soon(file):
        if not deadline.rest(RETRY_SECONDS):
            return False
    return True


def _gets_turn_soon(file: int) -> bool:
    """Try again and again for a moment: to sleep and to be woken takes longer than a commit."""
    end = ticks() + SOON_SECONDS
    while not _has_turn(file):
        if ticks() > end:
            return False
        os.sched_yield()
    return True


def _has_turn(file: int) -> bool:
    try:
        # Of the process and not of the open file: a child must not keep it.
        os.lockf(file, os.F_TLOCK, 1)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return True  # the file system has no such locks, SQLite's own has to do
    return True
