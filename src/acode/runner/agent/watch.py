"""What an agent's attempt is held to while it runs, and what its end means."""

from enum import Enum, auto
from math import inf
from typing import Final

from msgspec.structs import replace

from acode.clock import iso
from acode.model.agent import AgentRules, AgentRun
from acode.model.ending import Ending, Exited, Released, Signalled, TimedOut
from acode.model.failure import Category, Failure, FailureCode
from acode.policy.failures import LONGEST_WAIT_MS
from acode.runner.agent.stream import AgentStream

UNKNOWN_RESET_MS: Final = 300_000
"""How long a limit is believed to last whose end the service did not name."""

_TEMPORARY: Final = frozenset({"overloaded", "server_error", "rate_limit"})
"""The service's troubles that pass by themselves."""
_HOPELESS: Final = frozenset(
    {
        "authentication_failed",
        "oauth_org_not_allowed",
        "account_on_hold",
        "billing_error",
        "model_not_found",
    }
)
"""Troubles that every attempt meets until somebody does something."""


class Due(Enum):
    """Why an agent is to be ended now."""

    IDLE = auto()
    DONE = auto()


class AgentWatch:
    """Fed with what the agent prints; knows when to end it, and how to count its end."""

    def __init__(self, rules: AgentRules, now: float) -> None:
        self._rules = rules
        self._stream = AgentStream(rules.format)
        self._heard_at = now
        self._done_at: float | None = None
        self._ended_for: Due | None = None

    @property
    def run(self) -> AgentRun | None:
        """What the agent said of its run; `None` if it does not report."""
        return self._stream.run if self._stream.speaks_events else None

    def feed(self, data: bytes, now: float, moment: int) -> bytes:
        """What the agent has printed, as lines for the log."""
        self._heard_at = now
        lines = self._stream.feed(data, moment)
        if not self._stream.has_result:
            self._done_at = None
        elif self._done_at is None:
            self._done_at = now
        return lines

    def heard(self, now: float) -> None:
        """It has printed something that is not for us to read: it lives."""
        self._heard_at = now

    def close(self, moment: int) -> bytes:
        """The last line, if it has no end."""
        return self._stream.close(moment)

    @property
    def deadline(self) -> float:
        """When the agent is to be ended if it goes on like this."""
        if self._ended_for is not None:
            return inf
        if self._done_at is not None and self._rules.result_grace_seconds:
            return self._done_at + self._rules.result_grace_seconds
        return self._heard_at + (self._rules.idle_timeout_seconds or inf)

    @property
    def is_leaving(self) -> bool:
        """Whether it is ended because it did not end itself after its result."""
        return self._ended_for is Due.DONE

    def due(self, now: float) -> str | None:
        """Why to end it now, in words. Said once."""
        if now < self.deadline:
            return None
        if self._done_at is not None and self._rules.result_grace_seconds:
            self._ended_for = Due.DONE
            return "the agent has printed its result and does not end; it is ended"
        self._ended_for = Due.IDLE
        return f"the agent was idle for {self._rules.idle_timeout_seconds:g} s"

    @property
    def stopped_as(self) -> TimedOut | Exited:
        """The ending of an agent that was ended because it was due."""
        if self._ended_for is Due.IDLE:
            return TimedOut(self._rules.idle_timeout_seconds)
        return Exited(1 if self._stream.run.is_error else 0)

    def judged(self, ending: Ending, moment: int) -> tuple[Ending, Failure | None]:
        """The ending as it counts, and the failure that it hides. Others' reasons stand."""
        run = self._stream.run
        if self._ended_for is Due.IDLE:
            return ending, _idle(self._rules.idle_timeout_seconds)
        if self._ended_for is Due.DONE and isinstance(ending, Exited | Signalled):
            ending = self.stopped_as
        if not isinstance(ending, Exited):
            return ending, None
        if run.limit is not None:
            until = limit_ends(run, moment)
            self._stream.run = replace(run, limit=replace(run.limit, resets_at=until))
            return Released(f"usage limit until {iso(until)}"), None
        if run.is_error and self._stream.has_result:
            return ending, _reported(run, self._stream.trouble)
        if ending.code == 0 and self._stream.speaks_events and not self._stream.has_result:
            return ending, _NO_RESULT
        return ending, None


def limit_ends(run: AgentRun, moment: int) -> int:
    """Until when the agent's service takes no requests."""
    told = run.limit.resets_at if run.limit is not None else None
    if told is None or told <= moment:
        return moment + UNKNOWN_RESET_MS
    return min(told, moment + LONGEST_WAIT_MS)


def _idle(seconds: float) -> Failure:
    return Failure(
        FailureCode.TIMEOUT,
        Category.TRANSIENT,
        f"the agent was idle: it printed nothing for {seconds:g} s and was ended",
        "acode task logs ID shows its last words; agents.NAME.idleTimeoutSeconds gives it longer",
    )


def _reported(run: AgentRun, trouble: str) -> Failure:
    words = (run.result or "no reason given").strip().partition("\n")[0][:500]
    return Failure(
        FailureCode.EXIT_CODE,
        Category.TRANSIENT if trouble in _TEMPORARY else Category.PERMANENT,
        f"the agent reported a failure: {words}",
        "acode task logs ID shows how it came to that",
        final=trouble in _HOPELESS,
    )


_NO_RESULT: Final = Failure(
    FailureCode.EXIT_CODE,
    Category.PERMANENT,
    "the agent ended with exit code 0 but without a result",
    "acode task logs ID shows its last words",
)
