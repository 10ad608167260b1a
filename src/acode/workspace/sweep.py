"""Putting away what dead owners left: their work is saved first, then everything of it goes.

Called in a process of its own, which may be moved into namespaces to see what was mounted.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from acode.clock import SystemClock
from acode.errors import AcodeError
from acode.model.worker import ProcessIdentity
from acode.workspace.bases import drop_unused
from acode.workspace.conventions import signature
from acode.workspace.entry import Entry, owner_in, unregister
from acode.workspace.files import read_text
from acode.workspace.opening import SOURCES
from acode.workspace.removal import discard, empty_trash, remove
from acode.workspace.repository import Repository, find_repository
from acode.workspace.state import DRAFT, FOLDER, State, read_state
from acode.workspace.warm import folder_of
from acode.workspace.worktree import Worktree

IDLE_SECONDS = 3600.0
"""Shared checkouts that nobody has used for so long are dropped."""

IsAlive = Callable[[ProcessIdentity], bool]


class Swept(msgspec.Struct, frozen=True):
    """What was put away."""

    removed: int = 0
    saved: tuple[str, ...] = ()
    """The refs that hold what was not saved before."""
    problems: tuple[str, ...] = ()


def sweep(
    project_root: str, base_dir: str, is_alive: IsAlive, idle_seconds: float = IDLE_SECONDS
) -> Swept:
    """Save and remove what belongs to nobody alive; drop what nobody uses. Safe to repeat."""
    broom = _Broom(is_alive)
    for directory in _state_directories(base_dir):
        broom.look_at(directory)
    for folder in (os.path.join(base_dir, name) for name in _names(base_dir)):
        _remove_if_empty(folder)
    repository = find_repository(project_root)
    if repository is not None:
        broom.forget_entries(repository)
        _drop_outdated(base_dir, repository)
    drop_unused(base_dir, _idle_for(idle_seconds), spared=_keys_in_use(base_dir))
    empty_trash(base_dir)
    return Swept(broom.removed, tuple(broom.saved), tuple(broom.problems))


class _Broom:
    """Goes from record to record."""

    def __init__(self, is_alive: IsAlive) -> None:
        self.removed = 0
        self.saved: list[str] = []
        self.problems: list[str] = []
        self._is_alive = is_alive

    def look_at(self, directory: str) -> None:
        """One record; whatever goes wrong with it is told and hinders no other."""
        try:
            if os.path.basename(directory).startswith(DRAFT):
                self._remove_draft(directory)
                return
            with _alone_with(directory) as is_ours:
                state = read_state(directory) if is_ours else None
                if state is not None and not self._is_alive(state.record.order.owner):
                    self._put_away(state)
        except (AcodeError, OSError) as error:
            self.problems.append(f"{directory}: {error}")

    def _remove_draft(self, directory: str) -> None:
        """A record that was never finished: nothing had been made yet."""
        owner = owner_in(os.path.basename(directory).removeprefix(DRAFT))
        if owner is None or not self._is_alive(owner[1]):
            remove(directory)

    def _put_away(self, state: State) -> None:
        saved = Worktree(state, SOURCES[state.record.strategy]).give_up()
        self.saved += [saved] if saved else []
        self.removed += 1

    def forget_entries(self, repository: Repository) -> None:
        """Entries of ours whose tree somebody has removed by hand."""
        folder = os.path.join(repository.common, "worktrees")
        for name in _names(folder):
            entry = _read_entry(repository.common, name)
            if entry is None or self._is_alive(entry.owner):
                continue
            tree = os.path.dirname(read_text(os.path.join(entry.path, "gitdir")).strip())
            if not os.path.lexists(tree):
                unregister(entry)


def _state_directories(base_dir: str) -> Iterator[str]:
    for worker in _names(base_dir):
        folder = os.path.join(base_dir, worker, FOLDER)
        yield from (os.path.join(folder, name) for name in _names(folder))


def _names(folder: str) -> list[str]:
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


@contextmanager
def _alone_with(directory: str) -> Iterator[bool]:
    """Whether nobody else sweeps the same record at this moment."""
    try:
        file = open(os.path.join(directory, "record"), "rb")  # noqa: SIM115
    except FileNotFoundError:
        yield False
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _remove_if_empty(folder: str) -> None:
    """The folder of a worker of which nothing is left."""
    if os.path.basename(folder).startswith("."):
        return
    for path in (os.path.join(folder, FOLDER), folder):
        try:
            os.rmdir(path)
        except OSError:
            continue


def _read_entry(common: str, name: str) -> Entry | None:
    """An entry of ours, by what its lock says."""
    found = owner_in(read_text(os.path.join(common, "worktrees", name, "locked")))
    if found is None:
        return None
    return Entry(common=common, name=name, worker_id=found[0], owner=found[1])


def _keys_in_use(base_dir: str) -> set[str]:
    states = (read_state(directory) for directory in _state_directories(base_dir))
    return {state.record.key for state in states if state is not None}


def _drop_outdated(base_dir: str, repository: Repository) -> None:
    """Ready trees that were written by settings which hold no more."""
    current = signature(repository)
    for name in _names(folder_of(base_dir)):
        if not name.partition(".")[0].endswith(f"-{current}"):
            discard(os.path.join(folder_of(base_dir), name), base_dir)


def _idle_for(seconds: float) -> Callable[[float], bool]:
    now = SystemClock().now() / 1000
    return lambda used_at: now - used_at >= seconds
