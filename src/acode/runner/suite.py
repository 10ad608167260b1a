"""Directories for attempts. Handing them out is a rename; what was used is emptied first."""

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

    device: int
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
        self._seen_at: dict[str, float] = {}
        """When each room was last found changed, and as it was made."""
        self._handed_out_at = 0.0
        self._has_spare = False
        os.makedirs(directory, exist_ok=True)

    def hand_out(self, path: str) -> None:
        """Put empty rooms below this path."""
        if not self._take_spare(path):
            os.makedirs(path, mode=0o700)
            self._seen.clear()
            for room in self._rooms:
                os.mkdir(f"{path}/{room}", mode=0o700)
                self._note(f"{path}/{room}", room)
        self._handed_out_at = ticks()

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
        place = f"{path}/{room}"
        try:
            if self._is_settled(room) and _look(place) == self._seen[room]:
                return True
            if not _is_as_made(place, ()):
                return False
            self._note(place, room)
        except OSError:
            return False
        return True

    def _note(self, place: str, room: str) -> None:
        found = _look(place)
        if self._seen.get(room) != found:
            self._seen[room], self._seen_at[room] = found, ticks()

    def _is_settled(self, room: str) -> bool:
        """Whether a change since would show: one that follows at once may bear the same moment."""
        return self._handed_out_at - self._seen_at[room] > SETTLE_SECONDS

    def take_back(self, path: str) -> None:
        """Make the rooms empty again for the next one, or let all of them go."""
        try:
            if not self._has_spare and self._is_good_again(path):
                os.rename(path, self._spare)
                self._has_spare = True
                return
        except OSError:
            pass  # it is not what it was
        self._remove(path)

    def _is_good_again(self, path: str) -> bool:
        for room in self._rooms:
            if not self.is_unused(path, room):
                self._renew(f"{path}/{room}", room)
                if not self.is_unused(path, room):
                    return False
        if _is_as_made(path, self._rooms):
            return True
        for stranger in set(os.listdir(path)).difference(self._rooms):
            self._remove(f"{path}/{stranger}")
        return _is_as_made(path, self._rooms)

    def _renew(self, place: str, room: str) -> None:
        if not _has_emptied(place, self._seen[room]):
            self._remove(place)
            os.mkdir(place, mode=0o700)


def _look(path: str) -> _Seen:
    status = os.lstat(path)
    return _Seen(status.st_dev, status.st_ino, status.st_ctime_ns)


def _has_emptied(place: str, seen: _Seen) -> bool:
    """Remove what lies in a room, if these are only files and the room is the one we made.

    What lies deeper, or is mounted somewhere, takes more care.
    """
    room = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(room)
        if (status.st_dev, status.st_ino) != (seen.device, seen.inode):
            return False
        with os.scandir(room) as entries:
            found = list(entries)
        if any(entry.is_dir(follow_symlinks=False) for entry in found):
            return False
        for entry in found:
            os.unlink(entry.name, dir_fd=room)
    finally:
        os.close(room)
    return True


def _is_as_made(path: str, names: tuple[str, ...]) -> bool:
    """Whether a directory is ours alone and has nothing in it but these."""
    status = os.lstat(path)
    if stat.S_IMODE(status.st_mode) != 0o700 or not stat.S_ISDIR(status.st_mode):
        return False
    as_listed = status.st_uid == os.geteuid() and sorted(os.listdir(path)) == sorted(names)
    return as_listed and not os.listxattr(path)


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
