"""The value of a Python function, taken out of what it prints."""

from math import inf
from typing import Any

import msgspec

from acode.model.ending import Ending, Exited, TimedOut
from acode.model.failure import Category, Failure, FailureCode
from acode.runner.agent.lines import LineReader
from acode.runner.function import MARK


class Told(msgspec.Struct, frozen=True):
    """What the runner of a function says: one of the three."""

    value: Any = None
    raised: str | None = None
    missing: str | None = None


class Function:
    """Reads along until the one line that is not for the log."""

    deadline: float = inf
    is_leaving = False
    run = None

    def __init__(self, token: str) -> None:
        self._mark = f"{MARK}{token} ".encode()
        self._lines = LineReader()
        self._told = Told()

    def read(self, tag: str, data: bytes) -> bytes:
        """Everything but the line that tells the value."""
        if tag != "O":
            return data
        return b"".join(self._passed(line, b"\n") for line in self._lines.feed(data))

    def rest(self) -> bytes:
        """What was printed last, without the end of a line."""
        return self._passed(self._lines.rest(), b"")

    def _passed(self, line: bytes, end: bytes) -> bytes:
        words, mark, told = line.partition(self._mark)
        if not mark:
            return line + end
        self._told = msgspec.json.decode(told, type=Told)
        return words + end if words else b""

    def due(self) -> tuple[str, TimedOut | None]:
        """A function may take its time."""
        return "", None

    def judged(self, ending: Ending) -> tuple[Ending, Failure | None]:
        """What the function raised says more than an exit code."""
        if not isinstance(ending, Exited):
            return ending, None
        if self._told.missing is not None:
            return ending, _missing(self._told.missing)
        if self._told.raised is not None:
            return ending, _raised(self._told.raised, transient=ending.code == 75)
        return ending, None

    @property
    def value(self) -> object:
        """What it gave back."""
        return self._told.value


def _missing(words: str) -> Failure:
    return Failure(
        FailureCode.INVALID_TASK,
        Category.PERMANENT,
        f"the function cannot be imported: {words}",
        "it is imported by the project's Python in the workspace; is it committed and installed?",
        final=True,
    )


def _raised(words: str, *, transient: bool) -> Failure:
    return Failure(
        FailureCode.EXIT_CODE,
        Category.TRANSIENT if transient else Category.PERMANENT,
        f"the function raised {words}",
        "acode task logs ID shows the traceback",
    )
