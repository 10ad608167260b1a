"""Copies of files and trees that share their blocks where the file system can do that."""

import fcntl
import os
import shutil
import stat
from contextlib import suppress

_FICLONE = 0x40049409
_CHUNK = 1 << 30


def copy_file(source: str, target: str) -> None:
    """Copy the content of a file to a new one."""
    reading = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        writing = os.open(target, flags, stat.S_IMODE(os.fstat(reading).st_mode) | 0o200)
        try:
            _copy_content(reading, writing)
        finally:
            os.close(writing)
    finally:
        os.close(reading)


def copy_index(source: str, target: str) -> None:
    """Copy an index with its time: git tells by it which files may have changed unnoticed."""
    copy_file(source, target)
    status = os.stat(source)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _copy_content(reading: int, writing: int) -> None:
    with suppress(OSError):
        fcntl.ioctl(writing, _FICLONE, reading)
        return
    while os.sendfile(writing, reading, None, _CHUNK):
        pass


def copy_tree(source: str, target: str) -> None:
    """Copy a file, a link or a directory to where nothing is yet; links stay links."""
    status = os.lstat(source)
    if stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink(source), target)
    elif stat.S_ISREG(status.st_mode):
        copy_file(source, target)
        shutil.copystat(source, target, follow_symlinks=False)
    elif stat.S_ISDIR(status.st_mode):
        os.makedirs(target, exist_ok=True)
        for name in os.listdir(source):
            inner = os.path.join(target, name)
            if not os.path.lexists(inner):
                copy_tree(os.path.join(source, name), inner)
