"""What a coding agent says of its run, and what it is held to."""

from enum import StrEnum

import msgspec


class AgentFormat(StrEnum):
    """How an agent's output is read."""

    AUTO = "auto"
    """Events where lines are events, text where they are not."""
    STREAM_JSON = "stream-json"
    TEXT = "text"


class AgentRules(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent's attempt is held to beyond its timeout; a span of 0 is no bound."""

    format: AgentFormat = AgentFormat.AUTO
    idle_timeout_seconds: float = 0.0
    """How long it may print nothing."""
    result_grace_seconds: float = 0.0
    """How long it may take to end after it has printed its result."""


class UsageLimit(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The agent's service takes no more requests for a while."""

    message: str
    resets_at: int | None = None
    """Milliseconds since the epoch; `None` if the service did not say."""


class AgentRun(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What the agent reported; whether it is true is for others to check."""

    session_id: str | None = None
    model: str | None = None
    turns: int | None = None
    cost_usd: float | None = None
    duration_ms: int | None = None
    is_error: bool = False
    result: str | None = None
    """Its last words, shortened."""
    limit: UsageLimit | None = None
