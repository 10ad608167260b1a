"""Landlock: a process gives up rights to files, ports and strangers for itself and all below it.

By the system calls themselves. A kernel that knows less of it enforces less; `missing` says what.
"""

import errno
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from acode.runner.syscalls import syscall

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
_ASK_VERSION: Final = 1
_PATH_BENEATH: Final = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK = 1 << 6, 1 << 7, 1 << 8, 1 << 9
MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = 1 << 10, 1 << 11, 1 << 12
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15

READ: Final = EXECUTE | READ_FILE | READ_DIR
WRITE: Final = (
    WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM
    | REFER | TRUNCATE
)  # fmt: skip
DEVICE: Final = WRITE_FILE | TRUNCATE | IOCTL_DEV
ALL_WRITES: Final = WRITE | MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV
_OF_FILES: Final = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
"""What can be allowed for a file; the rest is for directories."""

BIND_TCP, CONNECT_TCP = 1 << 0, 1 << 1
_ABSTRACT_SOCKETS, _SIGNALS = 1 << 0, 1 << 1

_KNOWN_FILES: Final = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
ABI_REFER, ABI_TRUNCATE, ABI_NETWORK, ABI_DEVICES, ABI_SCOPES = 2, 3, 4, 5, 6


def abi() -> int:
    """How much of Landlock the kernel knows; 0 is nothing."""
    try:
        return syscall(_CREATE, None, 0, _ASK_VERSION)
    except OSError:
        return 0


def missing(version: int) -> Iterator[str]:
    """What a kernel of this version does not keep a task from, in the order of weight."""
    if version < 1:
        yield "writes outside the workspace (Landlock is missing; needs Linux 5.13 with it enabled)"
        return
    if version < ABI_REFER:
        yield "nothing more, but files cannot be moved between directories (needs Linux 5.19)"
    if version < ABI_TRUNCATE:
        yield "emptying files outside the workspace (needs Linux 6.2)"
    if version < ABI_DEVICES:
        yield "control of devices that it may open (needs Linux 6.10)"
    if version < ABI_SCOPES:
        yield "signals to other processes of the same user (needs Linux 6.12)"


class Ruleset:
    """What will still be allowed. Rules are added first; then somebody gives up the rest."""

    def __init__(self, files: int, *, ports: bool = False, version: int | None = None) -> None:
        known = abi() if version is None else version
        if known < 1:
            raise OSError(errno.ENOSYS, "this kernel has no Landlock")
        self._known = max(bits for level, bits in _KNOWN_FILES.items() if level <= known)
        self._files = files & self._known
        closed_ports = BIND_TCP | CONNECT_TCP if ports and known >= ABI_NETWORK else 0
        scopes = _ABSTRACT_SOCKETS | _SIGNALS if known >= ABI_SCOPES else 0
        size = 24 if known >= ABI_SCOPES else 16 if known >= ABI_NETWORK else 8
        attributes = struct.pack("QQQ", self._files, closed_ports, scopes)[:size]
        self._descriptor = syscall(_CREATE, attributes, size, 0)

    def allow(self, path: str, access: int) -> bool:
        """Leave rights to a file, or to everything below a directory; whether it is there."""
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                access &= _OF_FILES
            if access & self._files:
                rule = struct.pack("=Qi", access & self._files, descriptor)
                syscall(_ADD_RULE, self._descriptor, _PATH_BENEATH, rule, 0)
        finally:
            os.close(descriptor)
        return True

    def enforce(self) -> None:
        """Give up everything else, for this thread and whatever it starts. No way back.

        The thread must not be able to gain privileges any more (no_new_privs).
        """
        syscall(_RESTRICT, self._descriptor, 0)

    def close(self) -> None:
        """Let go of it."""
        with suppress(OSError):
            os.close(self._descriptor)
