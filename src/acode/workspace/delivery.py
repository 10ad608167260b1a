"""Delivering result branches to a remote: at once if it can be, else again and again.

A note says what is still to be delivered. It is there before the first try and goes with the one
that succeeds, so a crash forgets nothing.
"""

import os
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from acode.clock import Deadline
from acode.errors import AcodeError, WorkspaceFailed
from acode.model.task import Push
from acode.workspace.files import read_bytes, write_bytes
from acode.workspace.remote import push_branch, remote_of
from acode.workspace.repository import find_repository

PAUSES = (1.0, 3.0)
"""Seconds between the tries that an attempt waits for."""


class Parcel(msgspec.Struct, frozen=True, kw_only=True):
    """One branch for one remote."""

    task_id: str
    number: int
    """Of the attempt: a later one has a branch of its own to deliver."""
    branch: str
    remote: str


def deliver(parcel: Parcel, project_root: str, notes: str) -> Push:
    """Push now, with a few tries; what does not succeed stays noted for later."""
    note = _note(parcel, notes)
    for pause in (*PAUSES, None):
        done = try_once(parcel, project_root)
        if done.problem is None or pause is None:
            break
        Deadline(pause).rest(pause)
    if done.problem is None:
        forget(note)
    return done


def try_once(parcel: Parcel, project_root: str) -> Push:
    """Push, and say what kept us from it."""
    try:
        _push(parcel, project_root)
    except (AcodeError, OSError) as error:
        return Push(parcel.remote, str(error))
    return Push(parcel.remote)


def _push(parcel: Parcel, project_root: str) -> None:
    repository = find_repository(project_root)
    remote = remote_of(repository, parcel.remote) if repository else None
    if repository is None or remote is None:
        raise WorkspaceFailed(f"the repository has no remote {parcel.remote}")
    push_branch(repository, parcel.branch, remote)


def undelivered(notes: str) -> Iterator[tuple[str, Parcel]]:
    """What is still to be delivered, each with its note."""
    for name in sorted(os.listdir(notes)) if os.path.isdir(notes) else ():
        path = os.path.join(notes, name)
        with suppress(msgspec.DecodeError, FileNotFoundError):  # a draft, or just delivered
            yield path, msgspec.json.decode(read_bytes(path), type=Parcel)


def forget(note: str) -> None:
    """It needs no further try."""
    with suppress(FileNotFoundError):
        os.unlink(note)


def _note(parcel: Parcel, notes: str) -> str:
    os.makedirs(notes, exist_ok=True)
    path = os.path.join(notes, parcel.task_id)
    write_bytes(f"{path}.new", msgspec.json.encode(parcel))
    os.replace(f"{path}.new", path)
    return path
