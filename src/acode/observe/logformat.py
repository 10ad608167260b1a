"""How a log file is written: one record to a line, any bytes but a line feed in its data.

    @ <worker or -> <task or -> <attempt>     whose records follow; begins every file
    <ms since the epoch> <tag> <data>         a line
    <ms since the epoch> <tag>+ <data>        a piece: the next record of this tag goes on with it

A context in the middle of a file ends every unfinished line. At the start of a file it does so only
if it differs from the one before, because rotation may cut a line in two.
"""

from collections.abc import Iterator
from typing import NamedTuple

PIECE_BYTES = 65536
"""No record holds more; a longer line is stored in pieces."""


class Kind(NamedTuple):
    """What a tag says of its records."""

    stream: str
    level: str


KINDS = {
    b"O": Kind("stdout", "info"),
    b"E": Kind("stderr", "warning"),
    b"D": Kind("system", "debug"),
    b"I": Kind("system", "info"),
    b"W": Kind("system", "warning"),
    b"X": Kind("system", "error"),
}
LEVELS = ("debug", "info", "warning", "error")
"""From chatter to trouble."""


class Context(NamedTuple):
    """Who speaks: a worker, and what it was running."""

    worker_id: str | None = None
    task_id: str | None = None
    attempt: int = 0

    def line(self) -> bytes:
        """As it stands in a file."""
        return f"@ {self.worker_id or '-'} {self.task_id or '-'} {self.attempt}\n".encode()


class Chunk(NamedTuple):
    """Output that is formatted already, for as many files as want it."""

    lines: bytes
    size: int
    """How many bytes of output are in it."""
    at: int


def chunks(tag: str, output: bytes, now: int) -> Iterator[Chunk]:
    """Format output as it comes from a pipe, lines cut anywhere."""
    for start in range(0, len(output), PIECE_BYTES):
        yield _chunk(tag, output[start : start + PIECE_BYTES], now)


def _chunk(tag: str, output: bytes, now: int) -> Chunk:
    head = f"{now} {tag} ".encode()
    whole, newline, rest = output.rpartition(b"\n")
    lines = b"".join((head, whole.replace(b"\n", b"\n" + head), b"\n")) if newline else b""
    if rest:
        lines = b"".join((lines, f"{now} {tag}+ ".encode(), rest, b"\n"))
    return Chunk(lines, len(output), now)
