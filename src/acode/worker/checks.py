"""The checks of an attempt: commands that decide whether what it claims to have done is done."""

from collections.abc import Sequence

from msgspec.structs import replace

from acode.model.ending import Ending, Exited
from acode.model.failure import Failure
from acode.worker.messages import Check


class Checks:
    """Which of them have begun, and how they ended."""

    def __init__(self, checks: Sequence[Check]) -> None:
        self._checks = checks
        self.begun = 0
        """So many; while it is none, the task's own command is what runs."""
        self.codes: dict[str, int] = {}
        """Exit codes by name; -1 for whatever was no exit."""

    @property
    def has_more(self) -> bool:
        """Whether there is another one."""
        return self.begun < len(self._checks)

    def begin(self) -> Check:
        """The next one begins."""
        self.begun += 1
        return self._last

    def note(self, ending: Ending) -> tuple[str, int]:
        """The last one is over; its name and its exit code."""
        code = ending.code if isinstance(ending, Exited) else -1
        self.codes[self._last.name] = code
        return self._last.name, code

    def blame(self, failure: Failure) -> Failure:
        """A failure of the last one, by name."""
        return replace(failure, message=f"{self._last.name} failed: {failure.message}")

    @property
    def _last(self) -> Check:
        return self._checks[self.begun - 1]
