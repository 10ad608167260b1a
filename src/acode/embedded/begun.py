"""Which attempts have begun, noted where it outlives the program, though not the machine."""

import os

from acode.runner.identity import boot_id

SIZE = 64
"""Room for a token."""


class Begun:
    """One place for each worker, written before its handler starts. Nobody waits for the disk."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def note(self, place: int, token: str) -> None:
        """The worker of this place begins an attempt."""
        os.pwrite(self._file, token.encode().ljust(SIZE), (place + 1) * SIZE)

    def tokens(self) -> frozenset[str] | None:
        """What every worker began last; None if nobody can know since the machine was started."""
        mark, *places = os.pread(self._file, os.fstat(self._file).st_size, 0).split() or [b""]
        if mark != boot_id().encode():
            return None
        return frozenset(place.decode() for place in places)

    def forget(self) -> None:
        """Whoever comes now begins anew."""
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, boot_id().encode().ljust(SIZE), 0)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)
