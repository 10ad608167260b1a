"""Whom a container belongs to, and as whom its commands run. Files they make belong to the user."""

import os
from typing import NamedTuple

from acode.runner.container.discovery import Engine

NOBODY = 65534


class User(NamedTuple):
    """A container's user: as the engine is told, and who that is on this machine."""

    words: str
    uid: int
    gid: int
    userns: str = ""


def user_for(engine: Engine, owner: tuple[int, int]) -> User:
    """Never root of this machine; else whoever owns the project."""
    uid, gid = owner
    if engine.rootless:
        # The engine's own user is root inside, and nobody special outside.
        if engine.name == "podman":
            return User(f"{uid}:{gid}", uid, gid, "keep-id")
        return User("0:0", uid, gid)
    if uid == 0:
        return User(f"{NOBODY}:{NOBODY}", NOBODY, NOBODY)
    return User(f"{uid}:{gid}", uid, gid)


def owner_of(directory: str) -> tuple[int, int]:
    """Whose files tasks work on: ours, unless we are root; then the directory's owner's."""
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    status = os.stat(directory)
    return status.st_uid, status.st_gid
