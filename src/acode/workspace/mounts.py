"""Mounts and namespaces, by the system calls themselves."""

import ctypes
import os
import re

_MNT_DETACH = 2
_UMOUNT_NOFOLLOW = 8
_libc = ctypes.CDLL(None, use_errno=True)


def mounts_below(path: str) -> list[str]:
    """The mount points at or below a path, the deepest first."""
    real = os.path.realpath(os.path.dirname(path)).rstrip("/") + "/" + os.path.basename(path)
    with open("/proc/self/mountinfo", "rb") as file:
        points = [_plain(line.split(b" ")[4]) for line in file]
    found = [point for point in points if point == real or point.startswith(f"{real}/")]
    return sorted(found, key=len, reverse=True)


def _plain(point: bytes) -> str:
    """Spaces and the like are written as octal numbers."""
    return os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), point))


def unmount(point: str) -> bool:
    """Take a mount away, even one that is still in use; says whether that went well."""
    flags = _MNT_DETACH | _UMOUNT_NOFOLLOW
    return bool(_libc.umount2(os.fsencode(point), flags) == 0)
