"""Mounts and namespaces, by the system calls themselves."""

import ctypes
import os
import re

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_MS_REC = 0x4000
_MS_SLAVE = 0x80000
_MNT_DETACH = 2
_UMOUNT_NOFOLLOW = 8
_libc = ctypes.CDLL(None, use_errno=True)
# Looked up once, before any fork.
_unshare, _mount_call, _umount = _libc.unshare, _libc.mount, _libc.umount2

_entered: dict[int, bool] = {}
"""Processes that have a mount namespace of their own: this one, once it has entered; and whether
with all rights of the machine."""


def enter_namespace() -> None:
    """Get mounts of our own, which nobody else sees and which end with us. Safe to repeat."""
    if os.getpid() in _entered:
        return
    if _unshare(_CLONE_NEWNS) != 0:
        _enter_user_namespace()
    # What others mount from now on is still seen here; what we mount stays here.
    _mount("none", "/", "", _MS_REC | _MS_SLAVE, "")
    _entered[os.getpid()] = _is_initial_namespace()


def _enter_user_namespace() -> None:
    """Without rights, a namespace in which we have some; everybody keeps their numbers."""
    uid, gid = os.geteuid(), os.getegid()
    _check(_unshare(_CLONE_NEWUSER | _CLONE_NEWNS), "no user namespace can be made")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def mount_overlay(lower: str, upper: str, work: str, point: str) -> None:
    """Show a directory that cannot be changed with changes on top, in the namespace entered."""
    paths = {"lowerdir": lower, "upperdir": upper, "workdir": work}
    # By descriptor: no path is too long, and none needs its commas and colons escaped.
    opened = {name: os.open(path, os.O_PATH | os.O_CLOEXEC) for name, path in paths.items()}
    try:
        options = [f"{name}=/proc/self/fd/{fd}" for name, fd in opened.items()]
        # Directories can be renamed only where redirects can be written down.
        options.append("redirect_dir=on" if _entered[os.getpid()] else "userxattr")
        _mount("acode", point, "overlay", 0, ",".join(options))
    finally:
        for descriptor in opened.values():
            os.close(descriptor)


def _is_initial_namespace() -> bool:
    with open("/proc/self/uid_map", "rb") as file:
        return file.read().split() == [b"0", b"0", b"4294967295"]


def _mount(source: str, target: str, kind: str, flags: int, data: str) -> None:
    words = (os.fsencode(word) for word in (source, target, kind))
    done = _mount_call(*words, ctypes.c_ulong(flags), data.encode())
    _check(done, f"{target} cannot be mounted")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mounts_below(path: str) -> list[str]:
    """The mount points at or below a path, the deepest first."""
    real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    with open("/proc/self/mountinfo", "rb") as file:
        points = [_plain(line.split(b" ")[4]) for line in file]
    found = [point for point in points if point == real or point.startswith(f"{real}/")]
    return sorted(found, key=len, reverse=True)


def mount_table() -> list[list[bytes]]:
    """What is mounted where in our namespace, as it can be compared with another moment's."""
    with open("/proc/self/mountinfo", "rb") as file:
        # Numbers, order and ways of sharing change with the namespace; device, root, place and
        # mode stay.
        return sorted(line.split(b" ")[2:6] for line in file)


def _plain(point: bytes) -> str:
    """Spaces and the like are written as octal numbers."""
    return os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), point))


def unmount(point: str) -> bool:
    """Take a mount away, even one that is still in use; says whether that went well."""
    flags = _MNT_DETACH | _UMOUNT_NOFOLLOW
    return bool(_umount(os.fsencode(point), flags) == 0)
