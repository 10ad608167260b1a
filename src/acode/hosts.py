"""Who this host is among those that share a queue: a name that outlives every process."""

import os
import re

import msgspec

from acode.ids import new_id
from acode.project import Project

MACHINE_ID = "/etc/machine-id"


class Identity(msgspec.Struct, frozen=True):
    """What is written down; where any of the rest has changed, it is somebody else's id."""

    id: str
    name: str
    machine: str
    root: str


def my_host_id(project: Project, now: int) -> str:
    """The id of this project directory on this machine, made where there is none yet."""
    known = known_host_id(project)
    if known is not None:
        return known
    identity = _look(project, new_host_id(now))
    draft = f"{project.host_file}.{os.getpid()}"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(msgspec.json.encode(identity))
    os.replace(draft, project.host_file)
    return identity.id


def new_host_id(now: int) -> str:
    """An id that nobody has had; the name of the machine is part of it."""
    return f"{_plain(os.uname().nodename)}-{new_id(now)}"


def known_host_id(project: Project) -> str | None:
    """The id if there is one; a copy of a directory, or of a machine, has none yet."""
    try:
        with open(project.host_file, "rb") as file:
            found = msgspec.json.decode(file.read(), type=Identity)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    return found.id if found == _look(project, found.id) else None


def _look(project: Project, host_id: str) -> Identity:
    return Identity(host_id, os.uname().nodename, _machine(), project.root)


def _machine() -> str:
    try:
        with open(MACHINE_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "-", name)[:63].strip("-") or "host"
