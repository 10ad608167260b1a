"""The agent of an attempt on the worker's clocks."""

from acode.clock import Clock, ticks
from acode.model.agent import AgentRules, AgentRun
from acode.model.ending import Ending, TimedOut
from acode.model.failure import Failure
from acode.runner.agent.watch import AgentWatch


class Agent:
    """Reads an agent's stream."""

    def __init__(self, rules: AgentRules, clock: Clock) -> None:
        self._watch = AgentWatch(rules, ticks())
        self._clock = clock

    def read(self, tag: str, data: bytes) -> bytes:
        """What it has printed, as it belongs into the log."""
        if tag == "O":
            return self._watch.feed(data, ticks(), self._clock.now())
        self._watch.heard(ticks())
        return data

    def rest(self) -> bytes:
        """What it has printed last, without the end of a line."""
        return self._watch.close(self._clock.now())

    @property
    def deadline(self) -> float:
        """When it has to end if it goes on like this."""
        return self._watch.deadline

    def due(self) -> tuple[str, TimedOut | None]:
        """Why it has to end now; without an ending, its result stands."""
        words = self._watch.due(ticks())
        ending = self._watch.stopped_as
        return words or "", ending if isinstance(ending, TimedOut) else None

    @property
    def is_leaving(self) -> bool:
        """Whether it was told to leave after its result."""
        return self._watch.is_leaving

    def judged(self, ending: Ending) -> tuple[Ending, Failure | None]:
        """The ending as it counts, and what the agent itself says went wrong."""
        return self._watch.judged(ending, self._clock.now())

    @property
    def run(self) -> AgentRun | None:
        """What it said of its run."""
        return self._watch.run

    value: object = None
