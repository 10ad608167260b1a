"""How much an attempt has written, measured a little at a time."""

import os
import stat
from collections.abc import Iterator, Sequence
from itertools import islice

BLOCK_BYTES = 512
STEP_ENTRIES = 500
"""What one step looks at: about a millisecond."""


class DiskWalk:
    """Adds up what was written below some directories since a moment; step by step."""

    def __init__(self, directories: Sequence[str], since_ms: int) -> None:
        # What was there before the command began is not its own: a checkout, or files of others.
        self._sizes = _sizes(directories, since_ms * 1_000_000)
        self.written_bytes = 0
        self.is_done = False

    def step(self) -> None:
        """Go on a little."""
        sizes = list(islice(self._sizes, STEP_ENTRIES))
        self.written_bytes += sum(sizes)
        self.is_done = len(sizes) < STEP_ENTRIES


def _sizes(directories: Sequence[str], since_ns: int) -> Iterator[int]:
    waiting, seen = list(directories), set[tuple[int, int]]()
    while waiting:
        for entry in _entries(waiting.pop()):
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # gone meanwhile
            if stat.S_ISDIR(status.st_mode):
                waiting.append(entry.path)
            known = (status.st_dev, status.st_ino)
            if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
                if known in seen:
                    continue
                seen.add(known)
            yield status.st_blocks * BLOCK_BYTES if status.st_ctime_ns >= since_ns else 0


def _entries(directory: str) -> Iterator["os.DirEntry[str]"]:
    try:
        with os.scandir(directory) as entries:
            yield from entries
    except OSError:
        return  # gone meanwhile, or closed to us


def free_bytes(directories: Sequence[str]) -> int:
    """What the disks of these directories have left together."""
    return sum(_free(directory) for directory in directories)


def _free(directory: str) -> int:
    try:
        seen = os.statvfs(directory)
    except OSError:
        return 0
    return seen.f_bfree * seen.f_frsize
