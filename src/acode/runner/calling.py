"""One attempt of a handler, from the call to what came of it."""

import sys
import traceback
from typing import Any, Final

import msgspec

from acode.errors import AcodeError, InvalidTask
from acode.model.failure import Category, Failure, FailureCode
from acode.policy.exceptions import classify_exception
from acode.runner.context import Call, Context, SyncContext
from acode.runner.handlers import Handler, registry
from acode.runner.values import plain

MAX_TRACEBACK: Final = 20_000
"""Characters of a traceback that are passed on."""


class Raised(msgspec.Struct, frozen=True, kw_only=True):
    """What a handler raised, in a form that can go to another process."""

    failure: Failure
    module: str
    name: str
    arguments: tuple[Any, ...] | None
    """`None` if they are no JSON values."""
    traceback: str


def found(call: Call) -> Handler:
    """The handler that the call names."""
    return registry.find(call.name, call.path)


async def run(handler: Handler, call: Call, context: Context) -> Any:
    """Call an async handler; the JSON value that it returns."""
    value = await handler.function(context, *handler.shaped(call.arguments))
    return plain(value, f"the result of {call.name}")


def run_plainly(handler: Handler, call: Call, context: SyncContext) -> Any:
    """Call a handler that is a plain function; the JSON value that it returns."""
    value = handler.function(context, *handler.shaped(call.arguments))
    return plain(value, f"the result of {call.name}")


def failure_of(error: BaseException, context: Context | SyncContext | None, now: int) -> Failure:
    """What an exception of a handler means for its task."""
    if isinstance(error, InvalidTask):
        failure = Failure(
            code=FailureCode.INVALID_TASK,
            category=Category.PERMANENT,
            message=str(error),
            hint=error.hint,
            final=True,
        )
    else:
        failure = classify_exception(error, now)
    return failure if context is None else context.blame(error, failure)


def packed(error: BaseException, failure: Failure) -> Raised:
    """The exception for another process."""
    try:
        arguments = tuple(plain(each, "an argument") for each in error.args)
    except AcodeError:
        arguments = None
    text = "".join(traceback.format_exception(error))
    return Raised(
        failure=failure,
        module=type(error).__module__,
        name=type(error).__qualname__,
        arguments=arguments,
        traceback=text[-MAX_TRACEBACK:],
    )


class RemoteError(AcodeError):
    """What a handler raised in another process, as far as it can be told here."""

    code = "EXIT_CODE"


def unpacked(raised: Raised) -> BaseException:
    """The exception again: of its own class if that is known here and takes its arguments."""
    error = _made_again(raised) or RemoteError(raised.failure.message, raised.failure.hint)
    error.add_note(f"in a handler process:\n{raised.traceback}")
    return error


def _made_again(raised: Raised) -> BaseException | None:
    found: Any = sys.modules.get(raised.module)
    try:
        for part in raised.name.split("."):
            found = getattr(found, part)
        if (
            isinstance(found, type)
            and issubclass(found, Exception)
            and raised.arguments is not None
        ):
            return found(*raised.arguments)
    except Exception:
        return None  # a class that is made in another way
    return None
