"""The entry of a worktree in its repository: `<common>/worktrees/<name>`.

`git worktree add` reads every other entry and dies on one that is half written. So ours is written
elsewhere and renamed into place whole, and taken away the same way: nobody ever sees half of one.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import msgspec

from acode.errors import WorkspaceFailed
from acode.model.worker import ProcessIdentity
from acode.workspace.copying import copy_index
from acode.workspace.files import ensure_directory, write_text
from acode.workspace.removal import remove
from acode.workspace.repository import Repository

_TRIES = 100


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One worktree as its repository knows it."""

    common: str
    name: str
    worker_id: str
    owner: ProcessIdentity

    @property
    def path(self) -> str:
        """The entry's directory: what git calls the worktree's git directory."""
        return f"{self.common}/worktrees/{self.name}"

    @property
    def reason(self) -> str:
        """Why it is locked, for people and for whoever looks for orphans."""
        owner = self.owner
        return f"acode:{self.worker_id}:{owner.pid}:{owner.start_time}:{owner.boot_id}"


def owner_in(reason: str) -> tuple[str, ProcessIdentity] | None:
    """The worker's id and process in such a reason; None if it is not one of ours."""
    words = reason.strip().split(":")
    if len(words) < 5 or words[0] != "acode" or not (words[2] + words[3]).isdigit():
        return None
    return words[1], ProcessIdentity(int(words[2]), int(words[3]), words[4])


def new_name(task_id: str) -> str:
    """A name for an entry that nothing else has."""
    return f"acode-{task_id}-{os.urandom(4).hex()}"


class Draft(NamedTuple):
    """What an entry is made from."""

    index_file: str
    """The index of the tree, of which the task gets a copy."""
    spare: str
    """An entry that was begun ahead, if there is one."""

    def become(self, place: str, commit: str) -> None:
        """The one that was begun ahead, or one that is begun now."""
        try:
            os.rename(self.spare, place)
        except OSError:  # there is none, or it is on another file system
            os.mkdir(place)
            begin(place, commit, self.index_file)


def begin(place: str, commit: str, index: str) -> None:
    """What all entries of trees of a commit have in common."""
    write_text(f"{place}/HEAD", f"{commit}\n")
    write_text(f"{place}/commondir", "../..\n")
    copy_index(index, f"{place}/index")


def register(repository: Repository, entry: Entry, tree: str, commit: str, draft: Draft) -> None:
    """Make a tree a worktree: detached at a commit, and locked so that no prune takes it."""
    place = f"{_own_place(entry.common)}/new-{entry.name}"
    if os.path.isdir(f"{entry.common}/reftable"):
        _add_by_git(repository, entry, place, commit)
        write_text(f"{entry.path}/gitdir", f"{tree}/.git\n")
        copy_index(draft.index_file, f"{entry.path}/index")
    else:
        draft.become(place, commit)
        write_text(f"{place}/gitdir", f"{tree}/.git\n")
        write_text(f"{place}/locked", f"{entry.reason}\n")
        _move_into_place(place, entry.path)


def point_to(entry: Entry, tree: str) -> None:
    """Tell git in a tree where its entry is."""
    write_text(f"{tree}/.git", f"gitdir: {entry.path}\n")


def _add_by_git(repository: Repository, entry: Entry, draft: str, commit: str) -> None:
    """Where refs are kept in tables only git knows how; one at a time, because it reads others."""
    place = os.path.join(draft, entry.name)
    with _locked(entry.common):
        words = ("--detach", "--no-checkout", "--lock", "--reason", entry.reason, place, commit)
        repository.run("worktree", "add", *words)
    remove(draft)
    with suppress(FileNotFoundError):
        os.unlink(f"{entry.path}/index")


@contextmanager
def _locked(common: str) -> Iterator[None]:
    with open(os.path.join(_own_place(common), "lock"), "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _move_into_place(draft: str, place: str) -> None:
    for _ in range(_TRIES):
        try:
            os.rename(draft, place)
        except FileNotFoundError:
            # There was no worktree yet, or git has just removed the last one with its directory.
            os.makedirs(os.path.dirname(place), exist_ok=True)
        else:
            return
    raise WorkspaceFailed(f"{place} cannot be made")


def unregister(entry: Entry) -> None:
    """Take an entry away. Safe to repeat."""
    gone = os.path.join(_own_place(entry.common), f"gone-{entry.name}")
    with suppress(FileNotFoundError):
        os.rename(entry.path, gone)
    for left in (gone, os.path.join(_own_place(entry.common), f"new-{entry.name}")):
        remove(left)
    # The directory of all entries stays, even empty: a git that makes one now could trip over it.


def _own_place(common: str) -> str:
    place = f"{common}/acode"
    ensure_directory(place)
    return place
