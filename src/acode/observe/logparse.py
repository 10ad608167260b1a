"""From the bytes of a log to its lines. Memory is bounded, whatever the bytes are."""

from typing import NamedTuple

from acode.observe.logformat import KINDS, PIECE_BYTES, Context

LINE_BYTES = 4 * PIECE_BYTES
"""A longer line is given out in parts."""
LAST_MOMENT = 253_402_300_799_999
"""The end of the year 9999. A later time is no time."""

_RECORD_BYTES = PIECE_BYTES + 64
_GARBAGE = b"?"


class Record(NamedTuple):
    """One line of a log, or a part of a very long one."""

    at: int
    worker_id: str | None
    task_id: str | None
    attempt: int
    stream: str
    """stdout | stderr | system"""
    level: str
    message: bytes
    more: bool = False
    """The line goes on in the next record of this stream."""

    @property
    def text(self) -> str:
        """The message, with a mark in place of what is no UTF-8."""
        return self.message.decode("utf-8", "replace")


class _Unfinished:
    """A line whose end has not been read."""

    __slots__ = ("at", "data")

    def __init__(self, at: int) -> None:
        self.at = at
        self.data = bytearray()


class LogParser:
    """Takes blocks of a log, cut anywhere, and gives its lines. What is no record is left out.

    A line is held until its end, or until more than `line_bytes` of it are there: with 0, it is
    given out as it comes.
    """

    def __init__(self, line_bytes: int = LINE_BYTES) -> None:
        self._line_bytes = line_bytes
        self._context = Context()
        self._unfinished: dict[bytes, _Unfinished] = {}
        self._rest = b""
        self._at_start = True
        self._ready: list[Record] = []

    def feed(self, block: bytes) -> list[Record]:
        """The lines that this block completes."""
        *lines, rest = (self._rest + block).split(b"\n")
        self._rest = rest if len(rest) <= _RECORD_BYTES else _GARBAGE
        for line in lines:
            self._take(line)
        return self._given()

    def next_file(self) -> None:
        """The next block comes from the next file of the same log."""
        if self._rest:
            self._take(self._rest)
        self._rest = b""
        self._at_start = True

    def finish(self) -> list[Record]:
        """Nothing more comes: the lines that have no end."""
        self.next_file()
        self._end_lines()
        return self._given()

    def _given(self) -> list[Record]:
        ready, self._ready = self._ready, []
        return ready

    def _take(self, line: bytes) -> None:
        at_start, self._at_start = self._at_start, False
        if line.startswith(b"@ "):
            self._change(line, at_start)
            return
        moment, _, rest = line.partition(b" ")
        tag, space, data = rest.partition(b" ")
        if not (space and moment.isdigit() and len(moment) < 16):
            return
        at = int(moment)
        if at > LAST_MOMENT:
            return
        if tag in KINDS:
            self._end_line(at, tag, data)
        elif tag[1:] == b"+" and tag[:1] in KINDS:
            self._extend(at, tag[:1], data)

    def _change(self, line: bytes, at_start: bool) -> None:
        """Somebody else speaks, or the same one in a new file."""
        context = _context(line)
        if context is None:
            return
        if context != self._context or not at_start:
            self._end_lines()
        self._context = context

    def _extend(self, at: int, tag: bytes, data: bytes) -> None:
        line = self._unfinished.get(tag)
        if line is None:
            line = self._unfinished[tag] = _Unfinished(at)
        line.data += data
        whole = _whole(line.data)
        if whole > self._line_bytes:
            self._give(line.at, tag, bytes(line.data[:whole]), more=True)
            del line.data[:whole]
            line.at = at

    def _end_line(self, at: int, tag: bytes, data: bytes) -> None:
        line = self._unfinished.pop(tag, None)
        if line is None:
            self._give(at, tag, data)
        else:
            self._give(line.at, tag, bytes(line.data) + data)

    def _end_lines(self) -> None:
        for tag, line in self._unfinished.items():
            self._give(line.at, tag, bytes(line.data))
        self._unfinished.clear()

    def _give(self, at: int, tag: bytes, data: bytes, *, more: bool = False) -> None:
        self._ready.append(Record(at, *self._context, *KINDS[tag], data, more))


def _context(line: bytes) -> Context | None:
    _, *words = line.decode("utf-8", "replace").split(" ")
    if len(words) != 3 or not words[2].isdecimal() or len(words[2]) > 9:
        return None
    return Context(_name(words[0]), _name(words[1]), int(words[2]))


def _name(word: str) -> str | None:
    return None if word == "-" else word


def _whole(data: bytearray) -> int:
    """How much of it can be given out without cutting a UTF-8 character in two."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if length > back else len(data)
        if byte < 0x80:
            break
    return len(data)
