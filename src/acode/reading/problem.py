"""Problems in what a user wrote: where, what was found, what is allowed."""

import re
from collections.abc import Iterable, Sequence

import msgspec

Path = tuple[str | int, ...]
"""The way from the top of a document to a value: keys and positions."""

SHOWN = 50
"""Nobody reads more problems than these at once."""

_LONGEST = 60
_SIMPLE_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,59}")
_PASSWORD = re.compile(r"(?<=password=)[^&\s]*")


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong. Line 0 means that the source has no lines."""

    source: str
    line: int
    field: str
    found: str
    expected: str

    def __str__(self) -> str:
        place = f"{printable(self.source)}:{self.line}" if self.line else printable(self.source)
        field = f"{self.field}: " if self.field else ""
        return f"{place}: {field}found {self.found}, expected {self.expected}"


class Malformed(Exception):
    """The text cannot be read any further."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def listing(problems: Sequence[Problem]) -> str:
    """All problems, one to a line, in the order of their places."""
    lines = [str(problem) for problem in sorted(problems, key=lambda each: each.line)]
    if len(lines) > SHOWN:
        lines[SHOWN:] = [f"… and {len(lines) - SHOWN} more"]
    return "\n".join(lines)


def field_name(path: Path) -> str:
    """A path as people write it: `tasks[1].priority`."""
    return "".join(map(_step, path)).removeprefix(".")


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _SIMPLE_KEY.fullmatch(step) else f".{quoted(step)}"


def quoted(text: str) -> str:
    """Text in quotes: on one line, not too long, without passwords."""
    text = _without_passwords(text)
    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return '"' + printable(short).replace('"', '\\"') + '"'


def _without_passwords(text: str) -> str:
    scheme, colon, rest = text.partition("://")
    if colon and "@" in rest:
        text = f"{scheme}://***@{rest.rpartition('@')[2]}"
    return _PASSWORD.sub("***", text)


def printable(text: str) -> str:
    """Text that cannot upset a terminal."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def closest(word: str, allowed: Iterable[str]) -> str | None:
    """The allowed word that was probably meant."""
    if len(word) > _LONGEST:
        return None
    from difflib import get_close_matches

    spelled = {each.lower(): each for each in allowed}
    return next((spelled[each] for each in get_close_matches(word.lower(), spelled, n=1)), None)
