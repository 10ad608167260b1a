"""Directories for attempts. Handing them out is a rename; only empty ones are taken back."""

import os
import shutil
import stat
from collections.abc import Callable
from typing import NamedTuple

from acode.clock import ticks

SETTLE_SECONDS = 0.05
"""What a file system writes down as the moment of a change is at most so much off."""


class _Seen(NamedTuple):
    """A directory as it was when nothing was in it."""

    inode: int
    changed_ns: int


class Suite:
    """Rooms that come and go together: directories in one. Keeps one spare suite of them.

    To make one costs ten times a rename. Whether a room was used is told by the moment of its
    last change, which nobody can set.
    """

    def __init__(
        self, directory: str, name: str, rooms: tuple[str, ...], remove: Callable[[str], None]
    ) -> None:
        self._remove = remove
        self._spare = f"{directory}/.{name}"
        self._rooms = rooms
        self._seen: dict[str, _Seen] = {}
        self._last_seen_at = 0.0
        """When one of the rooms was last found changed, and empty."""
        self._has_spare = False
        self._is_settled = False
        os.makedirs(directory, exist_ok=True)

    def hand_out(self, path: str) -> None:
        """Put empty rooms below this path."""
        if not self._take_spare(path):
            os.makedirs(path, mode=0o700)
            self._seen.clear()
            for room in self._rooms:
                os.mkdir(f"{path}/{room}", mode=0o700)
                self._look(path, room)
        # A change that follows the last one at once may bear the same moment.
        self._is_settled = ticks() - self._last_seen_at > SETTLE_SECONDS

    def _take_spare(self, path: str) -> bool:
        if not self._has_spare:
            return False
        self._has_spare = False
        try:
            os.rename(self._spare, path)
        except OSError:
            return False  # something took our spare away
        return True

    def is_unused(self, path: str, room: str) -> bool:
        """Whether a room is as it was handed out."""
        try:
            status = os.lstat(f"{path}/{room}")
        except OSError:
            return False
        if self._is_settled and (status.st_ino, status.st_ctime_ns) == self._seen[room]:
            return True
        if not _is_as_made(f"{path}/{room}"):
            return False
        self._look(path, room)
        return True

    def _look(self, path: str, room: str) -> None:
        status = os.lstat(f"{path}/{room}")
        found = _Seen(status.st_ino, status.st_ctime_ns)
        if self._seen.get(room) != found:
            self._seen[room], self._last_seen_at = found, ticks()

    def take_back(self, path: str) -> None:
        """Remove the rooms with everything in them."""
        if not self._has_spare and all(self.is_unused(path, room) for room in self._rooms):
            try:
                os.rename(path, self._spare)
            except OSError:
                pass
            else:
                self._has_spare = True
                return
        self._remove(path)


def _is_as_made(path: str) -> bool:
    try:
        status = os.lstat(path)
        if stat.S_IMODE(status.st_mode) != 0o700 or not stat.S_ISDIR(status.st_mode):
            return False
        return status.st_uid == os.geteuid() and not os.listdir(path) and not os.listxattr(path)
    except OSError:
        return False


def remove(path: str) -> None:
    """Remove a directory tree, also one whose directories were made read-only."""
    if os.path.islink(path):
        os.unlink(path)
        return
    shutil.rmtree(path, onerror=_make_writable)


def _make_writable(_function: object, path: str, _error: object) -> None:
    try:
        os.chmod(os.path.dirname(path), 0o700)
        if os.path.isdir(path) and not os.path.islink(path):
            os.chmod(path, 0o700)
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
    except OSError:
        return  # what cannot be removed now is the janitor's
