"""Shared checkouts that are never changed: one for each commit in use, below all its overlays."""

import fcntl
import os
from collections.abc import Callable, Container
from contextlib import suppress

from acode.errors import WorkspaceFailed
from acode.workspace.checkout import check_out, settle
from acode.workspace.copying import copy_index
from acode.workspace.entry import begin
from acode.workspace.files import ensure_directory
from acode.workspace.removal import discard, remove
from acode.workspace.state import State

FOLDER = ".bases"
MOST_KITS = 8
"""So many lie ready; what they hold is a good part of what a hand-out costs."""


class Base:
    """A shared checkout in use. While the lock is held nobody drops it; a crash lets it go."""

    def __init__(self, directory: str, commit: str, lock: int) -> None:
        self._directory = directory
        self._commit = commit
        self.tree = f"{directory}/tree"
        self._index = f"{directory}/index"
        self._kits = f"{directory}/kits"
        self._lock = lock

    def furnish(self, place: str) -> None:
        """Give a workspace what it begins with: a kit that lies ready, or one that is made now."""
        if not self._takes_ready(place):
            self._make_kit(place, is_settled=settle(self._index))

    def _takes_ready(self, place: str) -> bool:
        with suppress(FileNotFoundError):
            for name in os.listdir(self._kits):
                with suppress(FileNotFoundError):  # somebody else was faster
                    os.rename(f"{self._kits}/{name}", place)
                    return True
        return False

    def _make_kit(self, place: str, *, is_settled: bool) -> None:
        os.mkdir(place)
        for name in ("upper", "work"):
            os.mkdir(f"{place}/{name}")
        os.link(f"{self._directory}/made", f"{place}/made")
        lend = os.link if is_settled else copy_index
        lend(self._index, f"{place}/index")

    def prepare_kit(self) -> None:
        """Make a kit for somebody later, with an entry that is begun, if there is room for it."""
        name = os.urandom(6).hex()
        draft = f"{self._directory}/.kit-{name}"
        try:
            ensure_directory(self._kits)
            if settle(self._index) and len(os.listdir(self._kits)) < MOST_KITS:
                self._make_kit(draft, is_settled=True)
                os.mkdir(f"{draft}/entry")
                begin(f"{draft}/entry", self._commit, self._index)
                os.rename(draft, f"{self._kits}/{name}")
        except OSError:
            remove(draft)

    def let_go(self) -> None:
        """Not used any more."""
        os.utime(self._lock)
        os.close(self._lock)


def hold(state: State) -> Base:
    """The shared checkout of a workspace's commit; whoever needs it first makes it."""
    folder = f"{state.base_dir}/{FOLDER}"
    directory = f"{folder}/{state.record.key}"
    try:
        lock = _lock(f"{directory}.lock", fcntl.LOCK_SH)
    except FileNotFoundError:
        ensure_directory(folder)
        lock = _lock(f"{directory}.lock", fcntl.LOCK_SH)
    if not os.path.isdir(directory):
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(directory):
            try:
                _make(state, directory)
            except BaseException:
                os.close(lock)
                raise
        fcntl.flock(lock, fcntl.LOCK_SH)
    os.utime(lock)
    return Base(directory, state.record.base, lock)


def hold_existing(state: State) -> Base:
    """The same for a workspace that was made by somebody else."""
    directory = f"{state.base_dir}/{FOLDER}/{state.record.key}"
    lock = _lock(f"{directory}.lock", fcntl.LOCK_SH)
    if os.path.isdir(directory):
        return Base(directory, state.record.base, lock)
    os.close(lock)
    raise WorkspaceFailed(f"{directory} is gone, and what was changed cannot be told without it")


def _lock(path: str, how: int) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(descriptor, how)
        # Whoever dropped the base has removed this file too, and the lock with it.
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)


def _draft(directory: str) -> str:
    return os.path.join(os.path.dirname(directory), f".new-{os.path.basename(directory)}")


def _make(state: State, directory: str) -> None:
    draft = _draft(directory)
    remove(draft)
    os.makedirs(draft)
    record = state.record
    try:
        check_out(record.repository, record.base, os.path.join(draft, "tree"), draft)
        os.rename(draft, directory)
    except BaseException:
        remove(draft)
        raise


def drop_unused(base_dir: str, is_old: Callable[[float], bool], spared: Container[str]) -> None:
    """Remove shared checkouts that nobody uses and that were last used long ago."""
    folder = os.path.join(base_dir, FOLDER)
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        key = name.removesuffix(".lock")
        if key != name and key not in spared:
            with suppress(BlockingIOError, FileNotFoundError):
                _drop(base_dir, os.path.join(folder, key), is_old)


def _drop(base_dir: str, directory: str, is_old: Callable[[float], bool]) -> None:
    descriptor = os.open(f"{directory}.lock", os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if is_old(os.fstat(descriptor).st_mtime):
            remove(_draft(directory))
            discard(directory, base_dir)
            os.unlink(f"{directory}.lock")
    finally:
        os.close(descriptor)
