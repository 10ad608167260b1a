"""Where databases are put: a fresh directory on a real disk, so that an fsync is one."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from bench.rounds import seconds

IN_MEMORY = {"tmpfs", "ramfs"}


def file_system(path: str) -> str:
    """The type of the file system that holds the path."""
    mounts = {part.mountpoint: part.fstype for part in psutil.disk_partitions(all=True)}
    path = os.path.realpath(path)
    while path not in mounts:
        path = os.path.dirname(path)
    return mounts[path]


def real_disk() -> str:
    """A directory for temporary files that is not in memory."""
    for path in (tempfile.gettempdir(), "/var/tmp", os.getcwd()):
        if file_system(path) not in IN_MEMORY:
            return path
    raise SystemExit("no directory on a real disk was found; set TMPDIR to one")


@contextmanager
def scratch() -> Iterator[str]:
    """A fresh directory on a real disk."""
    with tempfile.TemporaryDirectory(prefix="acode-bench-", dir=real_disk()) as path:
        yield path


def sync_seconds(directory: str, times: int = 50) -> float:
    """What it costs to bring one page to the disk."""
    file = os.open(os.path.join(directory, "page"), os.O_CREAT | os.O_WRONLY)
    try:
        return seconds(lambda: _append_pages(file, times)) / times
    finally:
        os.close(file)


def _append_pages(file: int, count: int) -> None:
    for _ in range(count):
        os.write(file, bytes(4096))
        os.fdatasync(file)
