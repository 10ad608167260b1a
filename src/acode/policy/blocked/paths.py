"""Which paths nobody wants to lose."""

import posixpath
import re
from fnmatch import fnmatchcase

from acode.policy.shell.meaning import HOME, UNKNOWN, literal

_SYSTEM = (
    "bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "media", "mnt", "opt",
    "proc", "root", "run", "sbin", "srv", "sys", "usr", "var",
)  # fmt: skip
_SECOND = frozenset({"/usr/bin", "/usr/lib", "/usr/sbin", "/usr/share", "/var/lib", "/usr/lib64"})
_DISK = re.compile(
    r"/dev/(?:[shv]d[a-z]|xvd[a-z]|nvme\d|mmcblk\d|md\d|dm-\d|mapper/|disk/|loop\d|nbd\d|sr\d|ram\d"
    r"|pmem\d|zd\d|drbd\d|root\b|mem$|kmem$|port$)"
)
_FILES = frozenset(
    {"/etc/passwd", "/etc/shadow", "/etc/group", "/etc/sudoers", "/etc/fstab",
     "/proc/sysrq-trigger", "/proc/kcore"}
)  # fmt: skip
_EVERYTHING = frozenset({"*", ".*", "?*", "**", "{,.}*", ".[!.]*", ".??*"})


def tidy(word: str, directory: str = "") -> str:
    """A path without detours; a relative one from the directory that is known, if any."""
    if not word.startswith(("/", HOME)) and directory:
        word = f"{directory}/{word}"
    if word.startswith(HOME):
        return (HOME + posixpath.normpath(f"/{word[1:]}")).rstrip("/")
    if not word.startswith("/"):
        return word
    return "/" + posixpath.normpath(word).lstrip("/")


def precious(word: str, directory: str = "") -> str | None:
    """The part of the system, or the home, that a path stands for; None for any other path."""
    path = tidy(word, directory)
    if path == "/" or path == HOME:
        return "/" if path == "/" else "the home directory"
    head, _, last = path.rpartition("/")
    if last in _EVERYTHING:
        return precious(head or "/") if path.startswith(("/", HOME)) else None
    if path.startswith(HOME) or not path.startswith("/") or UNKNOWN in path:
        return None
    names = path[1:].split("/")
    if len(names) == 1:
        return next((f"/{name}" for name in _SYSTEM if fnmatchcase(name, names[0])), None)
    return path if path in _SECOND or (len(names) == 2 and names[0] == "home") else None


def disk(word: str) -> str | None:
    """The disk, or the memory, that a path stands for."""
    path = tidy(word)
    return literal(path) if _DISK.match(path) else None


def vital(word: str) -> str | None:
    """The file without which the machine does not work."""
    path = tidy(word)
    return path if path in _FILES else None
