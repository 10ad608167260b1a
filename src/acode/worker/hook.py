"""What reads along with a command: an agent's stream, a function's value."""

from typing import Protocol

from acode.clock import Clock
from acode.model.agent import AgentRun
from acode.model.ending import Ending, TimedOut
from acode.model.failure import Failure
from acode.worker.messages import Assignment


class Hook(Protocol):
    """Hears what the command prints; knows when it has to end and what its end means."""

    def read(self, tag: str, data: bytes) -> bytes:
        """What it has printed, as it belongs into the log."""
        ...

    def rest(self) -> bytes:
        """What it has printed last, without the end of a line."""
        ...

    @property
    def deadline(self) -> float:
        """When it has to end if it goes on like this."""
        ...

    def due(self) -> tuple[str, TimedOut | None]:
        """Why it has to end now; without an ending, its result stands."""
        ...

    @property
    def is_leaving(self) -> bool:
        """Whether it was told to leave after its result."""
        ...

    def judged(self, ending: Ending) -> tuple[Ending, Failure | None]:
        """The ending as it counts, and what went wrong by its own account."""
        ...

    @property
    def run(self) -> AgentRun | None:
        """What an agent said of its run."""
        ...

    @property
    def value(self) -> object:
        """What a function gave back."""
        ...


def hook_of(assignment: Assignment, clock: Clock) -> Hook | None:
    """Who reads along; nobody for plain commands, and most workers never run anything else."""
    if assignment.agent is not None:
        from acode.worker.agent import Agent

        return Agent(assignment.agent, clock)
    if assignment.is_function:
        from acode.worker.function import Function

        return Function(assignment.token)
    return None
