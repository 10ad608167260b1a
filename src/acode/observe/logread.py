"""Reading logs: once, or for as long as somebody wants to see what comes."""

import os
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import count
from time import sleep
from typing import TYPE_CHECKING

from acode.observe.logparse import LINE_BYTES, LogParser, Record
from acode.observe.logparts import PACKED, part_name

if TYPE_CHECKING:
    from gzip import GzipFile
    from io import FileIO

BLOCK_BYTES = 65536
FIRST_REST = 0.05
LONGEST_REST = 0.5

Rest = Callable[[float], object]
"""Lets some seconds pass."""


class Part:
    """One open file of a log."""

    def __init__(self, path: str) -> None:
        self._raw = open(path, "rb", buffering=0)  # noqa: SIM115
        self._packed = path.endswith(PACKED)
        self._file = _unpacked(self._raw) if self._packed else self._raw
        status = os.fstat(self._raw.fileno())
        self.inode = (status.st_dev, status.st_ino)
        self._left = status.st_size

    @property
    def changed_at(self) -> int:
        """When it was last written to, in nanoseconds."""
        return os.fstat(self._raw.fileno()).st_mtime_ns

    def is_newer_than(self, other: "Part") -> bool:
        """Whether this one came after another, which was removed or packed meanwhile."""
        if self._packed:
            # Packing keeps the time, so this may be the other one.
            return self.changed_at > other.changed_at
        return self.changed_at >= other.changed_at

    def is_at(self, path: str) -> bool:
        """Whether this is the file of that name."""
        try:
            status = os.stat(path)
        except FileNotFoundError:
            return False
        return self.inode == (status.st_dev, status.st_ino)

    def read(self) -> bytes:
        """The next block; empty at the end, and where the rest is damaged."""
        try:
            return self._file.read(BLOCK_BYTES)
        except (EOFError, zlib.error, OSError):
            return b""

    def skip(self) -> None:
        """Go to the end."""
        self._file.seek(0, os.SEEK_END)

    def blocks(self) -> Iterator[bytes]:
        """What was in it when it was opened: somebody may write faster than we read."""
        while (self._packed or self._left > 0) and (block := self.read()):
            yield block
            self._left -= len(block)

    def close(self) -> None:
        """Let go of the file."""
        self._raw.close()


def _unpacked(raw: "FileIO") -> "FileIO | GzipFile":
    from gzip import GzipFile

    return GzipFile(fileobj=raw)


def open_parts(path: str, *, since: int = 0, after: Part | None = None) -> list[Part]:
    """The files of a log, oldest first: those written to since a moment, and after another one."""
    found: list[Part] = []
    for part in _newest_first(path):
        if after and part.inode == after.inode:
            part.close()
            return found[::-1]
        if part.changed_at < since * 1_000_000:
            part.close()
            break
        found.append(part)
    while after and found and not found[-1].is_newer_than(after):
        found.pop().close()
    return found[::-1]


def _newest_first(path: str) -> Iterator[Part]:
    """The files that exist. In this order, because they grow older while we look."""
    seen: set[tuple[int, int]] = set()
    gaps = 0
    for number in count():
        part = _open_one(path if number == 0 else part_name(path, number))
        gaps = 0 if part else gaps + 1
        # One number is free for a moment while a log is rotated; a new log has no number 0.
        if gaps > 2:
            return
        if part and part.inode in seen:
            part.close()
        elif part:
            seen.add(part.inode)
            yield part


def _open_one(path: str) -> Part | None:
    """The file, packed or not. The plain one comes first: its packed twin may be half a file."""
    for name in (path, path + PACKED):
        with suppress(FileNotFoundError, IsADirectoryError):
            return Part(name)
    return None


def read(path: str, since: int = 0) -> Iterator[Record]:
    """Every line of a log, except in files that were last written to before a moment."""
    parser = LogParser()
    with ExitStack() as opened:
        parts = open_parts(path, since=since)
        for part in parts:
            opened.callback(part.close)
        for part in parts:
            for block in part.blocks():
                yield from parser.feed(block)
            parser.next_file()
    yield from parser.finish()


class Tail:
    """Reads a log to its present end, again and again, through every rotation."""

    def __init__(
        self,
        path: str,
        *,
        since: int = 0,
        from_end: bool = False,
        line_bytes: int = LINE_BYTES,
    ) -> None:
        self.path = path
        self._since = since
        self._parser = LogParser(line_bytes)
        self._part: Part | None = None
        self._waiting: deque[Part] = deque()
        self._ready: deque[Record] = deque()
        if from_end:
            self._skip()

    def _skip(self) -> None:
        parts = open_parts(self.path)
        for part in parts[:-1]:
            part.close()
        for part in parts[-1:]:
            part.skip()
            self._part = part

    def poll(self, blocks: int | None = None) -> Iterator[Record]:
        """What is there now; no more than so many blocks of it."""
        for _ in count() if blocks is None else range(blocks):
            while self._ready:
                yield self._ready.popleft()
            if not (block := self._read()):
                break
            self._ready.extend(self._parser.feed(block))
        while self._ready:
            yield self._ready.popleft()

    def finish(self) -> list[Record]:
        """Nothing more will come: the lines that have no end."""
        return self._parser.finish()

    def close(self) -> None:
        """Let go of every file."""
        for part in (self._part, *self._waiting):
            if part:
                part.close()
        self._part = None
        self._waiting.clear()

    def _read(self) -> bytes:
        """The next block; empty at the present end."""
        while part := self._part or self._advance():
            # Asked before reading: what was written before the rotation must be read first.
            is_last = part.is_at(self.path)
            block = part.read()
            if block or is_last or not self._advance():
                return block
        return b""

    def _advance(self) -> Part | None:
        """Go on to the next file, if there is one."""
        if not self._waiting:
            self._waiting.extend(open_parts(self.path, since=self._since, after=self._part))
        if not self._waiting:
            return None
        if self._part:
            self._part.close()
            self._parser.next_file()
        self._part = self._waiting.popleft()
        return self._part


def follow(tail: Tail, ended: Callable[[], bool], rest: Rest = sleep) -> Iterator[Record]:
    """Everything in a log and all that comes, until there is nothing more to come."""
    pause = FIRST_REST
    over = False
    while not over:
        # Asked before reading: what was written before the end must be read.
        over = ended()
        pause = min(pause * 1.5, LONGEST_REST)
        for record in tail.poll():
            pause = FIRST_REST
            yield record
        if not over:
            rest(pause)
    yield from tail.finish()
