"""What went wrong with an attempt, in words that a user can act on."""

from enum import StrEnum

import msgspec


class FailureCode(StrEnum):
    """The closed list of reasons that an attempt can fail for."""

    EXIT_CODE = "EXIT_CODE"
    TIMEOUT = "TIMEOUT"
    WORKER_CRASH = "WORKER_CRASH"
    IPC_FAILURE = "IPC_FAILURE"
    INVALID_TASK = "INVALID_TASK"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    BLOCKED_COMMAND = "BLOCKED_COMMAND"
    TOOL_NOT_FOUND = "TOOL_NOT_FOUND"
    CANCELLED = "CANCELLED"


class Category(StrEnum):
    """Whether another try can help: yes, no, or from the failed step on."""

    TRANSIENT = "transient"
    PERMANENT = "permanent"
    PARTIAL = "partial"


class Failure(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """One failure: what happened (message) and what to do about it (hint)."""

    code: FailureCode
    category: Category
    message: str
    hint: str = ""
    retry_after_ms: int | None = None
    failed_step: str | None = None
    final: bool = False
    """Never retried, even if the task asked for retries."""
