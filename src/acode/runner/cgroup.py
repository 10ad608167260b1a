"""Where this machine lets us make control groups, and what is left of them."""

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import msgspec

from acode.clock import Deadline

CONTROLLERS: Final = ("memory", "pids", "cpu", "cpuacct")
NEEDED_V2: Final = ("memory", "pids", "cpu")
PREFIX: Final = "acode-worker-"
MEMBERS: Final = "cgroup.procs"
OURS: Final = "acode-pool"
"""In version 2 only leaves may hold processes: the pool itself moves into this one."""
REMOVE_SECONDS: Final = 0.5
"""A group can be removed when the last process in it is reaped; that takes a moment."""


class Place(msgspec.Struct, frozen=True):
    """The directories below which groups can be made, by controller."""

    version: int
    directories: dict[str, str]

    def groups_of(self, worker_id: str) -> dict[str, str]:
        """The directories of a worker's group, by controller."""
        return {
            controller: f"{directory}/{PREFIX}{worker_id}"
            for controller, directory in self.directories.items()
        }


def find_place(proc: str = "/proc/self") -> Place | None:
    """Below our own groups, where we may make some; None if nowhere. Changes nothing."""
    try:
        own, mounts = _own_groups(proc), _mounts(proc)
    except OSError:
        return None
    return _find_v1(own, mounts) or _find_v2(own, mounts)


def _own_groups(proc: str) -> dict[str, str]:
    """The path of our group in every hierarchy; version 2 is the one without a name."""
    with open(f"{proc}/cgroup", encoding="utf-8") as file:
        lines = [line.rstrip("\n").split(":", 2) for line in file]
    return {name: path for _, names, path in lines for name in names.split(",")}


def _mounts(proc: str) -> dict[str, tuple[str, str]]:
    """Mount point of every hierarchy, and which of its groups is mounted there."""
    found: dict[str, tuple[str, str]] = {}
    with open(f"{proc}/mountinfo", encoding="utf-8") as file:
        for line in file:
            place, _, kind = line.partition(" - ")
            fields = place.split()
            root, point = fields[3], fields[4]
            kind_fields = kind.split()
            if kind_fields[0] == "cgroup2":
                found.setdefault("", (point, root))
            elif kind_fields[0] == "cgroup":
                for option in kind_fields[2].split(","):
                    found.setdefault(option, (point, root))
    return found


def _directory(name: str, own: dict[str, str], mounts: dict[str, tuple[str, str]]) -> str | None:
    if name not in own or name not in mounts:
        return None
    (point, root), path = mounts[name], own[name]
    # In a container a part of the hierarchy is mounted, and paths may still count from its top.
    inside = path.removeprefix(root) if root != "/" else path
    directory = os.path.normpath(f"{point}/{inside}")
    return directory if os.path.isdir(directory) else point


def _find_v1(own: dict[str, str], mounts: dict[str, tuple[str, str]]) -> Place | None:
    found = {name: _directory(name, own, mounts) for name in CONTROLLERS}
    usable = {name: path for name, path in found.items() if path and _can_make(path)}
    # Without one of these two a group would hold nothing that matters.
    return Place(1, usable) if usable.keys() & {"memory", "pids"} else None


def _find_v2(own: dict[str, str], mounts: dict[str, tuple[str, str]]) -> Place | None:
    directory = _directory("", own, mounts)
    if directory is None:
        return None
    # A pool before us has moved everybody there, whoever starts us among them.
    above = os.path.dirname(directory) if os.path.basename(directory) == OURS else directory
    offered = _offered_v2(above)
    # Without one of these two a group would hold nothing that matters.
    if not {"memory", "pids"} & set(offered) or not _can_make(above):
        return None
    return Place(2, dict.fromkeys(offered, above))


def _offered_v2(directory: str) -> list[str]:
    """The controllers that groups below this one could have, if it was delegated to us."""
    try:
        with open(f"{directory}/cgroup.controllers", encoding="ascii") as file:
            there = file.read().split()
    except OSError:
        return []
    is_ours = os.access(f"{directory}/cgroup.subtree_control", os.W_OK)
    return [name for name in NEEDED_V2 if name in there] if is_ours else []


def make_room(place: Place) -> Place | None:
    """Let groups at this place have controllers; None if that is refused.

    Whoever only wants to know what is possible must not call this: processes are moved.
    """
    if place.version == 1:
        return place
    (directory,) = set(place.directories.values())
    try:
        _empty_v2(directory)
        wanted = " ".join(f"+{name}" for name in place.directories)
        _write(f"{directory}/cgroup.subtree_control", wanted)
    except OSError:
        return None
    return place


def _empty_v2(directory: str) -> None:
    """A group whose children have controllers must not hold processes itself."""
    leaf = f"{directory}/{OURS}"
    os.makedirs(leaf, exist_ok=True)
    for pid in members(directory):
        with suppress(ProcessLookupError):
            _write(f"{leaf}/{MEMBERS}", str(pid))


def _can_make(directory: str) -> bool:
    """The only proof that a group can be made is one that was."""
    trial = f"{directory}/{PREFIX}trial-{os.getpid()}"
    try:
        os.mkdir(trial)
        os.rmdir(trial)
    except OSError:
        return False
    return True


def members(directory: str) -> list[int]:
    """The processes in a group; none if there is no such group."""
    try:
        with open(f"{directory}/{MEMBERS}", encoding="ascii") as file:
            return [int(line) for line in file]
    except OSError:
        return []


def kill_members(directory: str) -> int:
    """Kill everything in a group but ourselves; says how many were hit."""
    return sum(_kill(pid, directory) for pid in members(directory) if pid != os.getpid())


def _kill(pid: int, directory: str) -> bool:
    """Through a descriptor: whoever has the pid by then is hit only if it is a member too."""
    try:
        descriptor = os.pidfd_open(pid)
    except (ProcessLookupError, OSError):
        return False
    try:
        if pid not in members(directory):
            return False
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    else:
        return True
    finally:
        os.close(descriptor)


def remove_groups(directories: Iterable[str]) -> bool:
    """Remove groups of which nobody is in charge any more, with what is in them; says if gone."""
    left = [directory for directory in dict.fromkeys(directories) if not _remove(directory)]
    return not left


def _remove(directory: str) -> bool:
    deadline = Deadline(REMOVE_SECONDS)
    while True:
        try:
            os.rmdir(directory)
        except FileNotFoundError:
            return True
        except OSError:
            kill_members(directory)
        else:
            return True
        if not deadline.rest(0.005):
            return False


def _write(path: str, value: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(value)
