"""The files of one log: `x.log` is written to, `x.log.1` is the newest of the old ones."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PACKED = ".gz"


def part_name(path: str, number: int) -> str:
    """The name of an old part, before it is compressed."""
    return f"{path}.{number}"


@contextmanager
def renaming(path: str) -> Iterator[bool]:
    """The right to rename or remove parts of logs in this directory; False if another has it.

    Nobody waits for it: who writes a log tries again with the next chunk, who tidies up later.
    """
    descriptor = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield _lock(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # A file system without locks. A log that grows for ever would be worse.
        return True
    return True


def shift(path: str, max_files: int) -> None:
    """Make room for a new file: every part becomes one older, the oldest goes."""
    for ending in ("", PACKED):
        with suppress(FileNotFoundError):
            os.unlink(_oldest(path, max_files) + ending)
        for number in range(max_files - 2, 0, -1):
            _rename(part_name(path, number) + ending, part_name(path, number + 1) + ending)
    if max_files > 1:
        _rename(path, part_name(path, 1))


def _oldest(path: str, max_files: int) -> str:
    return part_name(path, max_files - 1) if max_files > 1 else path


def _rename(old: str, new: str) -> None:
    with suppress(FileNotFoundError):
        os.rename(old, new)
