"""Putting trees away: a rename first, which is quick and final, then the deleting."""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import suppress

from acode.workspace.mounts import mounts_below, unmount

TRASH = ".trash"


def discard(path: str, base_dir: str) -> None:
    """Move a tree out of sight, then delete it. Safe to repeat."""
    trash = os.path.join(base_dir, TRASH)
    os.makedirs(trash, exist_ok=True)
    target = os.path.join(trash, f"{os.path.basename(path)}-{secrets.token_hex(4)}")
    _make_movable(path)
    try:
        os.rename(path, target)
    except FileNotFoundError:
        return
    except OSError:
        target = path  # another file system, or a mount point: delete it where it is
    remove(target)


def empty_trash(base_dir: str) -> None:
    """Delete what a crash has left half deleted."""
    trash = os.path.join(base_dir, TRASH)
    with suppress(FileNotFoundError):
        for name in os.listdir(trash):
            remove(os.path.join(trash, name))


def remove(path: str) -> None:
    """Delete a tree, whatever its modes; what lies behind a mount or a link is not touched."""
    mounts = mounts_below(path)
    for mount in mounts:
        unmount(mount)
    if mounts and mounts_below(path):
        return  # somebody else's files lie below; better to leave a tree than to delete those
    try:
        if stat.S_ISDIR(os.lstat(path).st_mode):
            _remove_directory(path)
        else:
            os.unlink(path)
    except OSError:
        return  # gone meanwhile, or not ours to delete: the next sweep tries again


def _remove_directory(path: str) -> None:
    for directory, entries in _bottom_up(path):
        for name in entries:
            with suppress(OSError):
                os.unlink(os.path.join(directory, name))
        with suppress(OSError):
            os.rmdir(directory)
    if os.path.isdir(path):
        _remove_what_is_deep(path)


def _remove_what_is_deep(top: str) -> None:
    """Deeper than any path can be: every directory is moved up before its turn comes."""
    waiting = [entry.path for entry in _entries(top) if entry.is_dir(follow_symlinks=False)]
    while waiting:
        directory = waiting.pop()
        for entry in _entries(directory):
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    _make_movable(entry.path)
                    up = os.path.join(top, secrets.token_hex(8))
                    os.rename(entry.path, up)
                    waiting.append(up)
                else:
                    os.unlink(entry.path)
        with suppress(OSError):
            os.rmdir(directory)
    with suppress(OSError):
        os.rmdir(top)


def _bottom_up(top: str) -> Iterator[tuple[str, list[str]]]:
    """Every directory after those inside it, each with its entries that are no directories."""
    waiting, found = [top], []
    while waiting:
        directory = waiting.pop()
        files: list[str] = []
        for entry in _entries(directory):
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            else:
                files.append(entry.name)
        found.append((directory, files))
    return reversed(found)


def _entries(directory: str) -> list[os.DirEntry[str]]:
    _make_movable(directory)
    with suppress(OSError), os.scandir(directory) as entries:
        return list(entries)
    return []


def _make_movable(directory: str) -> None:
    """Entries of a directory can be removed only if it is writable."""
    with suppress(OSError):
        mode = os.lstat(directory).st_mode
        if stat.S_ISDIR(mode) and mode & 0o700 != 0o700:
            os.chmod(directory, 0o700)
