"""The feed: what the pool did, in a file, so that who reads it can never slow the pool.

Every line is an event as it goes over the wire. Its number is a place in the life of the whole
project: the moves of the store have the multiples of `SPAN`, what the pool itself did has the
numbers between the last move before it and the next one. So one order holds for everything.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from io import FileIO
from typing import Any, NamedTuple

import msgspec

from acode.clock import iso

SPAN = 1 << 20
"""Numbers from one move to the next; 2**33 moves fit into what JavaScript can count."""
MAX_BYTES = 4 << 20
"""A file that has grown so large is put aside; one older file is kept."""


class Entry(msgspec.Struct, frozen=True):
    """One line of the feed."""

    seq: int
    type: str
    payload: dict[str, Any]
    timestamp: str


class Told(NamedTuple):
    """An event that has no number yet."""

    type: str
    payload: dict[str, Any]
    at: int


_decode = msgspec.json.Decoder(Entry).decode
_encode = msgspec.json.Encoder(enc_hook=str).encode


class FeedWriter:
    """Numbers what it is told and writes it down. It must outlive the daemon, not the machine."""

    def __init__(self, path: str, max_bytes: int = MAX_BYTES) -> None:
        self._path = path
        self._max_bytes = max_bytes
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._last = max((entry.seq for entry, _ in entries(path)), default=0)
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115
        if not _ends_well(path):  # the daemon before us was cut off in the middle of a line
            self._file.write(b"\n")

    def write(self, events: list[Told], newest_move: int) -> None:
        """Write events that came after a move and before the next one."""
        if not events:
            return
        lines = []
        for event in events:
            self._last = max(self._last, newest_move * SPAN) + 1
            moment = iso(event.at) or ""
            lines.append(_encode(Entry(self._last, event.type, event.payload, moment)))
        self._file.write(b"\n".join([*lines, b""]))
        if self._file.tell() > self._max_bytes:
            self._rotate()

    def _rotate(self) -> None:
        self._file.close()
        os.replace(self._path, older(self._path))
        self._file = open(self._path, "ab", buffering=0)  # noqa: SIM115

    def close(self) -> None:
        """Write no more."""
        self._file.close()


class FeedReader:
    """Reads a feed from its present end on, through rotations."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: FileIO | None = None
        self._rest = b""
        self._open(at_end=True)

    def read(self) -> list[tuple[Entry, bytes]]:
        """What has come since the last time."""
        data = self._rest
        if self._file is not None:
            data += self._file.readall() or b""
        if self._is_elsewhere():
            data = data + b"\n"
            self._open(at_end=False)
            data += (self._file and self._file.readall()) or b""
        whole, _, self._rest = data.rpartition(b"\n")
        return list(_parsed(whole))

    def _open(self, *, at_end: bool) -> None:
        self.close()
        with suppress(FileNotFoundError):
            self._file = open(self._path, "rb", buffering=0)  # noqa: SIM115
            if at_end:
                self._file.seek(0, os.SEEK_END)

    def _is_elsewhere(self) -> bool:
        """Whether the file of that name is another one by now."""
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            return False
        mine = self._file and os.fstat(self._file.fileno())
        return not mine or (mine.st_dev, mine.st_ino) != (status.st_dev, status.st_ino)

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def entries(path: str) -> Iterator[tuple[Entry, bytes]]:
    """Everything that is kept, oldest first, each with its bytes."""
    for name in (older(path), path):
        with suppress(FileNotFoundError), open(name, "rb") as file:
            yield from _parsed(file.read())


def older(path: str) -> str:
    """The file before this one."""
    return f"{path}.1"


def _parsed(data: bytes) -> Iterator[tuple[Entry, bytes]]:
    for line in data.split(b"\n"):
        with suppress(msgspec.MsgspecError):  # cut off, or damaged: the next one is sound
            yield _decode(line), line


def _ends_well(path: str) -> bool:
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return file.read(1) in (b"", b"\n")
