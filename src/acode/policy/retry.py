"""What becomes of a task after an attempt, and when it is tried again."""

from collections.abc import Callable
from typing import Final, assert_never

import msgspec

from acode.model.ending import (
    Cancelled,
    Ending,
    Exited,
    Lost,
    NotStarted,
    OverLimit,
    Released,
    Signalled,
    TimedOut,
)
from acode.model.failure import Category, Failure, FailureCode
from acode.model.task import Result
from acode.model.verdict import Cancel, Complete, Fail, Release, RetryAt, Verdict
from acode.policy.failures import LONGEST_WAIT_MS, brief, explain

DEFAULT_LIMIT: Final = 3
"""Retries of a transient failure if the task does not say."""

POISON_CRASHES: Final = 3
"""A task that has killed its worker so often is not given another one."""

NEVER_RETRIED: Final = frozenset(
    {
        FailureCode.INVALID_TASK,
        FailureCode.PERMISSION_DENIED,
        FailureCode.BLOCKED_COMMAND,
        FailureCode.TOOL_NOT_FOUND,
        FailureCode.CANCELLED,
    }
)
"""Another attempt would meet the same end, whatever the task's retries."""

RETRIED_ON_REQUEST: Final = frozenset({FailureCode.EXIT_CODE, FailureCode.RESOURCE_EXHAUSTED})
"""Another attempt may end differently, but it costs: only the task's own retries ask for it."""


class Retry(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """How long to wait between attempts."""

    initial_delay_ms: int = 1000
    max_delay_ms: int = 30_000
    multiplier: float = 2.0
    jitter: float = 0.1
    """How much a delay may be off, as a fraction, so that tasks do not come back all at once."""

    def __post_init__(self) -> None:
        if self.initial_delay_ms < 0 or self.max_delay_ms < 0:
            raise ValueError("a retry delay must not be negative")
        if not self.multiplier >= 1:
            raise ValueError("the retry multiplier must be at least 1")
        if not 0 <= self.jitter <= 1:
            raise ValueError("the retry jitter must be between 0 and 1")


class Outcome(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """How an attempt went, and how often its task may be tried."""

    ending: Ending
    attempt_count: int
    """Attempts that count, this one included."""
    failure: Failure | None = None
    """What went wrong, where somebody knows better than the ending tells."""
    result: Result = Result()
    retry_limit: int | None = None
    """The task's own; `None` if it did not say."""
    default_limit: int = DEFAULT_LIMIT
    crashes: int = 0
    """How often the task has killed its worker, this time included."""


def delay_ms(attempt: int, retry: Retry, draw: float) -> int:
    """How long to wait after that attempt; `draw` is a random number from 0 up to 1."""
    swing = retry.jitter * (2 * draw - 1)
    return int(_backoff_ms(attempt, retry) * (1 + swing))


def _backoff_ms(attempt: int, retry: Retry) -> float:
    try:
        growth = retry.multiplier ** max(0, attempt - 1)
    except OverflowError:
        return min(retry.initial_delay_ms, 1) * retry.max_delay_ms
    return min(retry.initial_delay_ms * growth, retry.max_delay_ms)


def decide(outcome: Outcome, retry: Retry, now: int, draw: Callable[[], float]) -> Verdict:
    """What becomes of the task. `draw` gives a random number from 0 up to 1."""
    match outcome.ending:
        case Cancelled():
            return Cancel(result=outcome.result)
        case Released(why):
            return Release(reason=why, result=outcome.result)
        case Exited() | Signalled() | TimedOut() | OverLimit() | Lost() | NotStarted():
            failure = outcome.failure or explain(outcome.ending)
            if failure is None:
                return Complete(outcome.result)
            return _retry_or_fail(outcome, failure, retry, now, draw)
        case _:
            assert_never(outcome.ending)


def _retry_or_fail(
    outcome: Outcome, failure: Failure, retry: Retry, now: int, draw: Callable[[], float]
) -> Fail | RetryAt:
    refusal = _refusal(outcome, failure)
    if refusal:
        return Fail(failure, f"{_what(outcome)}; {refusal}", outcome.result)
    wait = _wait_ms(outcome, failure, retry, draw())
    attempts = f"attempt {outcome.attempt_count + 1} of {_limit(outcome) + 1}"
    reason = f"{_what(outcome)}; {attempts} in {wait / 1000:.1f} s"
    return RetryAt(now + wait, failure, reason, outcome.result)


def _refusal(outcome: Outcome, failure: Failure) -> str:
    """Why there is no further attempt; empty if there is one."""
    if failure.code is FailureCode.WORKER_CRASH and outcome.crashes >= POISON_CRASHES:
        return f"quarantined because it killed its worker {outcome.crashes} times"
    if not _curable(failure):
        return "not retried because another attempt cannot help"
    if outcome.retry_limit is None and not _retried_by_default(failure):
        return "not retried because the task sets no retries"
    if outcome.attempt_count > _limit(outcome):
        return f"retries exhausted after {_attempts(outcome.attempt_count)}"
    return ""


def _curable(failure: Failure) -> bool:
    """Whether another attempt can end differently, if the task allows one."""
    if failure.final or failure.code in NEVER_RETRIED:
        return False
    return failure.code in RETRIED_ON_REQUEST or failure.category is not Category.PERMANENT


def _retried_by_default(failure: Failure) -> bool:
    """Whether the pool's limit holds where the task sets none; never for want of a resource."""
    exhausted = failure.code is FailureCode.RESOURCE_EXHAUSTED
    return failure.category is not Category.PERMANENT and not exhausted


def _limit(outcome: Outcome) -> int:
    return outcome.default_limit if outcome.retry_limit is None else outcome.retry_limit


def _wait_ms(outcome: Outcome, failure: Failure, retry: Retry, draw: float) -> int:
    asked_for = min(failure.retry_after_ms or 0, LONGEST_WAIT_MS)
    return max(delay_ms(outcome.attempt_count, retry, draw), asked_for)


def _what(outcome: Outcome) -> str:
    """The first line of what went wrong."""
    text = outcome.failure.message if outcome.failure else brief(outcome.ending)
    return text.strip().partition("\n")[0]


def _attempts(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count} attempts"
