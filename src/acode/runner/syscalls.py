"""System calls that Python does not have."""

import ctypes
import os
from typing import Final

_libc = ctypes.CDLL(None, use_errno=True)
# Keeps the interpreter's lock: these calls take less than it takes to get that back.
_quick = ctypes.PyDLL(None, use_errno=True)
_syscall = _quick.syscall
_syscall.restype = ctypes.c_long

_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
_CAPABILITY_VERSION: Final = 0x20080522

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_SLAVE = 1, 32, 4096, 16384, 1 << 19


def syscall(number: int, *words: bytes | int | None) -> int:
    """Make a system call; what it gives, or its error."""
    given = [ctypes.c_long(word) if isinstance(word, int) else word for word in words]
    return _checked(_syscall(ctypes.c_long(number), *given))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def prctl(option: int, value: int, more: int = 0) -> None:
    """Change something about the calling thread or its process."""
    _checked(_quick.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(more), 0, 0))


def forbid_new_privileges() -> None:
    """Programs with the setuid bit give nothing to this thread and all below it any more."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def set_dumpable(yes: bool) -> None:
    """Whether others of the same user may look into this process."""
    prctl(_PR_SET_DUMPABLE, int(yes))


def keep_capabilities(kept: int) -> None:
    """Give up all capabilities of this thread but these, a bit each.

    Programs that it starts do not get them back, not even as root, if it gave up new privileges.
    """
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    low, high = kept & 0xFFFFFFFF, kept >> 32
    data = (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)
    _checked(_quick.capset(header, data))


def unshare(flags: int) -> None:
    """Move the calling thread into namespaces of its own."""
    _checked(_libc.unshare(flags))


def enter_namespace(descriptor: int, kind: int) -> None:
    """Move the calling thread into a namespace that is there."""
    _checked(_libc.setns(descriptor, kind))


def mount(source: str, target: str, flags: int) -> None:
    """Mount one place at another, or change how it is mounted."""
    _checked(
        _libc.mount(os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(flags), None)
    )
