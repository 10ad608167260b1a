"""What becomes of a task after an attempt: decided by policy, written by the store."""

from typing import ClassVar

import msgspec

from acode.model.ending import Ending, Usage
from acode.model.failure import Failure
from acode.model.state import Status
from acode.model.task import Result


class Complete(msgspec.Struct, frozen=True, gc=False, tag="complete"):
    """It is done."""

    status: ClassVar[Status] = Status.COMPLETED
    reason: ClassVar[str] = "completed"
    failure: ClassVar[None] = None
    result: Result = Result()


class Fail(msgspec.Struct, frozen=True, gc=False, tag="fail"):
    """It failed for good and becomes a dead letter."""

    status: ClassVar[Status] = Status.FAILED
    failure: Failure
    reason: str
    result: Result = Result()


class RetryAt(msgspec.Struct, frozen=True, gc=False, tag="retryAt"):
    """It goes back to the queue until `ready_at`."""

    status: ClassVar[Status] = Status.PENDING
    ready_at: int
    failure: Failure
    reason: str
    result: Result = Result()


class Cancel(msgspec.Struct, frozen=True, gc=False, tag="cancel"):
    """A user wanted its end."""

    status: ClassVar[Status] = Status.CANCELLED
    failure: ClassVar[None] = None
    reason: str = "cancelled"
    result: Result = Result()


class Release(msgspec.Struct, frozen=True, gc=False, tag="release"):
    """It goes back to the queue as if the attempt had not been."""

    status: ClassVar[Status] = Status.PENDING
    failure: ClassVar[None] = None
    reason: str
    result: Result = Result()


Verdict = Complete | Fail | RetryAt | Cancel | Release
"""Each has the `status` that it leads to, a `reason`, and a `failure` if something went wrong."""


class Report(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The end of one attempt, as it is written to the store. Fenced by the token."""

    task_id: str
    token: str
    ending: Ending
    ended_at: int
    verdict: Verdict
    usage: Usage | None = None
    actor: str = "daemon"
    ran_on: str | None = None
    """The host that it ran on, where another one writes down that it was lost."""
