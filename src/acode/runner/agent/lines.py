"""A stream of bytes in pieces of any size becomes lines."""

from collections.abc import Iterator
from typing import Final

MAX_LINE_BYTES: Final = 32 * 1024 * 1024
"""No agent's event is longer; what is longer is passed over instead of kept in memory."""


class LineReader:
    """Keeps what has no end yet. Every byte is looked at once, however long a line is."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max = max_bytes
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that are complete now, without their ends."""
        *ended, rest = data.split(b"\n")
        for piece in ended:
            self._keep(piece)
            yield self.rest()
        self._keep(rest)

    def rest(self) -> bytes:
        """What came after the last line end; nothing of it is kept."""
        pieces, size = self._pieces, self._size
        self._pieces, self._size = [], 0
        if size > self._max:
            return b"(a line of %d bytes is left out)" % size
        return b"".join(pieces)

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= self._max:
            self._pieces.append(piece)
        else:
            self._pieces.clear()
