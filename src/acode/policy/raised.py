"""What handlers raise to say themselves how their failure is meant."""

from acode.errors import AcodeError
from acode.model.failure import Category, Failure, FailureCode


class HandlerError(AcodeError):
    """A failure of a handler that speaks for itself; the base of the three below."""

    code = "EXIT_CODE"

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message, failure.hint)
        self.failure = failure


class TransientError(HandlerError):
    """Another attempt may succeed; `retry_after` says in how many seconds at the soonest."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        wait_ms = None if retry_after is None else round(retry_after * 1000)
        hint = "it is tried again by itself; if it goes on, look at what it depends on"
        super().__init__(_failure(Category.TRANSIENT, message, hint, retry_after_ms=wait_ms))
        self.retry_after = retry_after


class PermanentError(HandlerError):
    """No attempt will succeed: the task becomes a dead letter at once, whatever its retries."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        hint = hint or "correct what it names, then retry the dead letter"
        super().__init__(_failure(Category.PERMANENT, message, hint, final=True))


class PartialError(HandlerError):
    """Some steps are done; the next attempt goes on with the one that failed."""

    def __init__(self, message: str, *, failed_step: str | None = None, hint: str = "") -> None:
        hint = hint or "the finished steps are kept; the next attempt goes on after them"
        super().__init__(_failure(Category.PARTIAL, message, hint, failed_step=failed_step))
        self.failed_step = failed_step


def _failure(
    category: Category,
    message: str,
    hint: str,
    *,
    retry_after_ms: int | None = None,
    failed_step: str | None = None,
    final: bool = False,
) -> Failure:
    return Failure(
        code=FailureCode.EXIT_CODE,
        category=category,
        message=message,
        hint=hint,
        retry_after_ms=retry_after_ms,
        failed_step=failed_step,
        final=final,
    )
