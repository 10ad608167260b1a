"""Namespaces: a network with nothing in it, and places that cannot be written to."""

import fcntl
import os
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Final

from acode.runner.syscalls import (
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWUSER,
    MS_BIND,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    MS_SLAVE,
    mount,
    set_dumpable,
    unshare,
)

_CAP_SYS_ADMIN: Final = 21
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_KEPT_FLAGS: Final = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME


def capabilities() -> int:
    """What the calling thread may do beyond its user's rights, a bit each."""
    with open("/proc/thread-self/status", "rb") as file:
        for line in file:
            if line.startswith(b"CapPrm:"):
                return int(line.split()[1], 16)
    return 0


@cache
def may_make() -> bool:
    """Whether namespaces can be made without one for users."""
    return bool(capabilities() >> _CAP_SYS_ADMIN & 1)


@cache
def users_may() -> bool:
    """Whether a user without rights can make namespaces; found out by doing it, in a child."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            _unshare_as_user(CLONE_NEWNET)
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


def separate(*, network: bool, sealed: Sequence[str], open_: Sequence[str] = ()) -> bool:
    """Move this process into its own namespaces; whether the network is closed by that.

    What is sealed cannot be written to any more, but for the open places within it.
    """
    flags = (CLONE_NEWNET if network else 0) | (CLONE_NEWNS if sealed else 0)
    try:
        if may_make():
            unshare(flags)
        else:
            _unshare_as_user(flags)
    except OSError:
        return False
    if sealed:
        _seal(sealed, open_)
    if network:
        raise_loopback()
    return network


def _unshare_as_user(flags: int) -> None:
    """In a namespace for users everybody may make others; outside we stay who we are."""
    user, group = os.geteuid(), os.getegid()
    set_dumpable(True)  # else these files would be root's
    unshare(CLONE_NEWUSER | flags)
    for name, text in (
        ("setgroups", b"deny"),
        ("uid_map", b"%d %d 1" % (user, user)),
        ("gid_map", b"%d %d 1" % (group, group)),
    ):
        with open(f"/proc/self/{name}", "wb") as file:
            file.write(text)


def raise_loopback() -> None:
    """Tests that talk to themselves go on working."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
        fcntl.ioctl(wire, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", _IFF_UP))


def _seal(sealed: Sequence[str], open_: Sequence[str]) -> None:
    kept = [(path, os.open(path, os.O_PATH)) for path in open_ if _is_within(path, sealed)]
    mount("none", "/", MS_REC | MS_SLAVE)
    # A directory with a mount in it can be renamed, and another one put in its place. One that
    # is a mount itself cannot.
    for path in {os.path.dirname(path) for path in sealed}.difference(open_):
        _bind(path, path)
    for path in sealed:
        _bind(path, path)
        flags = os.statvfs(path).f_flag & _KEPT_FLAGS
        mount("none", path, MS_BIND | MS_REMOUNT | MS_RDONLY | flags)
    for path, descriptor in kept:
        _bind(f"/proc/self/fd/{descriptor}", path)
        os.close(descriptor)


def _bind(source: str, target: str) -> None:
    mount(source, target, MS_BIND | MS_REC)


def _is_within(path: str, sealed: Sequence[str]) -> bool:
    return any(path.startswith(f"{each}/") for each in sealed)
