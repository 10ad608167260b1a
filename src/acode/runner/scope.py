"""Whether systemd gives the pool a scope of its own, in which it may make control groups."""

import os
import shutil
from typing import NamedTuple

from acode.runner.cgroup import Place, find_place

SYSTEMD = "/run/systemd/system"
"""Is there if and only if systemd runs the machine."""
UNIFIED = "/sys/fs/cgroup/cgroup.controllers"
"""Is there if control groups are of version 2 alone; systemd delegates no controllers of others."""
LINGERING = "/var/lib/systemd/linger"
"""Has a file for each user whose programs stay when the last session is over."""


class Standing(NamedTuple):
    """What decides on a scope."""

    place: Place | None
    """Where groups can be made as it is."""
    delegated: bool
    """Whether systemd has left that place to us."""
    systemd: bool
    """Whether it runs the machine and has groups to give."""
    root: bool
    stays: bool
    """Whether what a user starts may outlive the user's session."""


def standing() -> Standing:
    """How things are for this process."""
    place, root = find_place(), os.geteuid() == 0
    return Standing(
        place=place,
        delegated=place is not None and (not root or _is_delegated(place)),
        systemd=_has_systemd(),
        root=root,
        stays=root or _lingers(),
    )


def wants_scope(seen: Standing) -> bool:
    """Whether a scope would give the pool what it does not have."""
    if seen.place is not None and (seen.place.version == 1 or seen.delegated):
        return False
    return seen.systemd


def scope_command(seen: Standing, title: str) -> list[str]:
    """What to put in front of the daemon's command line; nothing if it stays where it is."""
    # A user's scopes end with the last session: a pool that is left running is worth more.
    if not wants_scope(seen) or not seen.stays:
        return []
    manager = [] if seen.root else ["--user"]
    return [*("systemd-run", *manager, "--scope", "--quiet", "--collect"),
            *("--property=Delegate=yes", f"--description={title}", "--")]  # fmt: skip


def _has_systemd() -> bool:
    return all(map(os.path.exists, (SYSTEMD, UNIFIED))) and shutil.which("systemd-run") is not None


def _is_delegated(place: Place) -> bool:
    """Root may write everywhere, so that only systemd's own mark tells."""
    (directory,) = set(place.directories.values()) if place.version == 2 else ("",)
    try:
        return os.getxattr(directory, "trusted.delegate") == b"1"
    except OSError:
        return False


def _lingers() -> bool:
    from pwd import getpwuid  # only where it is asked for

    try:
        return os.path.exists(f"{LINGERING}/{getpwuid(os.geteuid()).pw_name}")
    except KeyError:
        return False
