"""What a command says: JSON for programs, columns for pipes, tables for people."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, NamedTuple, TextIO

from acode.errors import AcodeError
from acode.human import clean

Say = Callable[[str], None]
"""Replaces the text beside a spinner."""


class Column(NamedTuple):
    """One column of a table; a coloured one shows its words in their colours."""

    name: str
    coloured: bool = False


class Screen:
    """Everything a command prints goes through here."""

    def __init__(self, *, json: bool, quiet: bool, colour: bool) -> None:
        self.json = json
        self.quiet = quiet
        self.colour = colour
        self.terminal = sys.stdout.isatty()

    def data(self, value: Any) -> None:
        """Print JSON: compact for programs, indented for people."""
        from msgspec import json

        text = json.encode(value)
        if self.terminal:
            text = json.format(text, indent=2)
        self.line(text.decode())

    def line(self, text: str) -> None:
        """Print one line as it is."""
        sys.stdout.write(f"{text}\n")

    def text(self, text: str) -> None:
        """Print one line that may hold foreign words."""
        self.line(clean(text))

    def flush(self) -> None:
        """Let the reader have what was printed so far."""
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """Say something beside the answer, on stderr."""
        if not self.quiet:
            _tell(clean(text))

    def said(self, text: str) -> None:
        """Tell what was done, where the answer is the deed."""
        if not self.quiet:
            self.text(text)

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
        """Print rows under their headings."""
        cells = [[clean(cell) for cell in row] for row in rows]
        if self.terminal:
            from acode.cli.pretty import print_table

            print_table(columns, cells, colour=self.colour)
        else:
            for line in aligned([[column.name for column in columns], *cells]):
                self.line(line)

    def fields(self, values: Mapping[str, str | None]) -> None:
        """Print names and values, one below the other, leaving out what is not there."""
        known = {name: value for name, value in values.items() if value}
        width = max(map(len, known), default=0)
        for name, value in known.items():
            first, *others = [clean(line) for line in value.splitlines()] or [""]
            self.line(f"{name:<{width}}  {first}")
            for other in others:
                self.line(f"{'':<{width}}  {other}")

    def heading(self, text: str) -> None:
        """Begin a new section."""
        self.line(f"\n{text}")

    def working(self, text: str) -> AbstractContextManager[Say]:
        """Show on a terminal that something is being done, and for how much of it."""
        if self.quiet or self.json or not (self.terminal and sys.stderr.isatty()):
            return nullcontext(_nothing)
        from acode.cli.pretty import spinner

        return spinner(text, colour=self.colour)


def _nothing(_text: str) -> None:
    """Nobody is looking."""


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows as lines whose columns stand below each other."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    for row in rows:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield "  ".join(padded).rstrip()


def complain(error: AcodeError) -> None:
    """Print an error: its code and message, then the hint."""
    report(error.code, str(error), error.hint)


def report(code: str, message: str, hint: str) -> None:
    """Print what went wrong and what to do about it. A list of problems begins with their count."""
    lines = message.splitlines() or [""]
    if len(lines) > 1:
        lines.insert(0, _counted(lines))
    lines[0] = f"acode: {code}: {lines[0]}"
    if hint:
        lines.append(f"hint: {hint}")
    for line in lines:
        _tell(clean(line))


def _counted(problems: list[str]) -> str:
    cut = problems[-1].startswith("… and ")
    return f"more than {len(problems) - 1} problems" if cut else f"{len(problems)} problems"


def _tell(line: str) -> None:
    """Print one line to stderr; if nobody can hear it, that is nothing to talk about."""
    # What was printed before must not come after it where both go to the same place.
    with suppress(OSError):
        sys.stdout.flush()
    try:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
    except OSError:
        silence(sys.stderr)


def silence(stream: TextIO) -> None:
    """Let the interpreter's last flush go nowhere: it would complain in its own words."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
