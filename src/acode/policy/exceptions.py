"""What an exception that a handler raised means for its task."""

import errno
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from acode.model.failure import Category, Failure, FailureCode
from acode.policy.failures import LONGEST_WAIT_MS, OUT_OF_MEMORY, Kind, permanent, transient

LONGEST_MESSAGE: Final = 2000
"""Characters of an exception's text that are kept."""


def classify_exception(error: BaseException, now: int) -> Failure:
    """What an exception that a handler raised means for its task.

    One that carries a `failure` speaks for itself; a group is as grave as its gravest member.
    """
    if isinstance(error, BaseExceptionGroup):
        return max((classify_exception(each, now) for each in error.exceptions), key=_gravity)
    told = _attribute(error, "failure")
    if isinstance(told, Failure):
        return told
    wait = _retry_after_ms(error, now)
    kind = _kind_of_exception(error, asks_to_wait=wait is not None)
    return kind.failure(_describe(error), wait if kind.category is Category.TRANSIENT else None)


def _gravity(failure: Failure) -> tuple[bool, bool, int]:
    hopeless = failure.category is Category.PERMANENT
    return failure.final, hopeless, failure.retry_after_ms or 0


def _kind_of_exception(error: BaseException, *, asks_to_wait: bool) -> Kind:
    status = _http_status(error)
    kind = _kind_of_type(_reason(error)) if status is None else _kind_of_status(status)
    return _UNAVAILABLE if kind is _UNCLASSIFIED and asks_to_wait else kind


def _kind_of_status(status: int) -> Kind:
    if status in (408, 504):
        return _SLOW_SERVICE
    if status >= 500 or status in (425, 429):
        return _UNAVAILABLE
    return _FINAL_STATUSES.get(status, _UNCLASSIFIED)


def _kind_of_type(error: BaseException) -> Kind:
    for cls in type(error).__mro__:
        if cls.__name__ in _KIND_BY_NAME:
            return _KIND_BY_NAME[cls.__name__]
    number = _attribute(error, "errno")
    return _KIND_BY_ERRNO.get(number, _UNCLASSIFIED) if isinstance(number, int) else _UNCLASSIFIED


def _reason(error: BaseException) -> BaseException:
    """What `urllib` wraps, or the error itself."""
    reason = _attribute(error, "reason")
    return reason if isinstance(reason, BaseException) else error


def _http_status(error: BaseException) -> int | None:
    response = _attribute(error, "response")
    for source in (error, response):
        for name in ("status_code", "status", "code"):
            value = _attribute(source, name)
            if isinstance(value, int) and 400 <= value <= 599:
                return value
    return None


def _retry_after_ms(error: BaseException, now: int) -> int | None:
    waits = (_wait_ms(wish, now) for wish in _wishes(error))
    return next((wait for wait in waits if wait is not None), None)


def _wishes(error: BaseException) -> Iterator[object]:
    """Whatever may say when to come again, the most direct first."""
    yield _attribute(error, "retry_after")
    for source in (error, _attribute(error, "response")):
        get = _attribute(_attribute(source, "headers"), "get")
        if callable(get):
            yield from (_called(get, name) for name in ("Retry-After", "retry-after"))


def _wait_ms(wish: object, now: int) -> int | None:
    match wish:
        case bool():
            return None
        case int() | float():
            return _bounded_ms(wish)
        case timedelta():
            return _bounded_ms(wish.total_seconds())
        case str():
            return _bounded_ms(_seconds_in(wish, now))
        case _:
            return None


def _bounded_ms(seconds: float) -> int | None:
    # Asked this way round so that not-a-number is refused too.
    return int(min(seconds, LONGEST_WAIT_MS / 1000) * 1000) if seconds >= 0 else None


def _seconds_in(text: str, now: int) -> float:
    """Seconds, or seconds until an HTTP date; not-a-number if it is neither."""
    try:
        return float(text)
    except ValueError:
        return _seconds_until(text, now)


def _seconds_until(date: str, now: int) -> float:
    # Imported late: it costs more than everything else here together.
    from email.utils import mktime_tz, parsedate_tz

    try:
        parsed = parsedate_tz(date)
        return max(0.0, mktime_tz(parsed) - now / 1000) if parsed else float("nan")
    except (IndexError, OverflowError, TypeError, ValueError):
        return float("nan")


def _attribute(source: object, name: str) -> Any:
    """An attribute of somebody else's object; `None` where reading it fails."""
    try:
        return getattr(source, name, None)
    except Exception:
        return None


def _called(function: Any, *arguments: str) -> Any:
    try:
        return function(*arguments)
    except Exception:
        return None


def _describe(error: BaseException) -> str:
    text = _called(lambda: str(error)) or ""
    name = type(error).__name__
    return _storable(f"{name}: {text}" if text else name)


def _storable(text: str) -> str:
    """Text that any store takes: bounded, and without the lone surrogates of odd file names."""
    return text[:LONGEST_MESSAGE].encode(errors="backslashreplace").decode()


_SLOW_SERVICE = transient(FailureCode.TIMEOUT, "whoever was asked did not answer in time")
_UNREACHABLE = transient(FailureCode.EXIT_CODE, "check that the service runs and can be reached")
_UNAVAILABLE = transient(
    FailureCode.EXIT_CODE, "the service is overloaded or limits how often it may be asked"
)
_FORBIDDEN = permanent(
    FailureCode.PERMISSION_DENIED, "check the credentials and what they allow", final=True
)
_REFUSED_INPUT = permanent(
    FailureCode.INVALID_TASK, "correct the task's arguments; they will be refused again", final=True
)
_NOT_THERE = permanent(
    FailureCode.EXIT_CODE, "check the name or address: what was asked for is not there", final=True
)
_NO_ROOM = permanent(FailureCode.RESOURCE_EXHAUSTED, "free some space on the disk")
_UNCLASSIFIED = permanent(
    FailureCode.EXIT_CODE, "set the task's retries if another attempt may succeed"
)

_FINAL_STATUSES: Final = {
    400: _REFUSED_INPUT,
    401: _FORBIDDEN,
    403: _FORBIDDEN,
    404: _NOT_THERE,
    405: _NOT_THERE,
    410: _NOT_THERE,
    422: _REFUSED_INPUT,
}

# By name, because the HTTP clients that raise most of these are none of our dependencies.
_KIND_BY_NAME: Final = {
    "TimeoutError": _SLOW_SERVICE,
    "Timeout": _SLOW_SERVICE,
    "TimeoutException": _SLOW_SERVICE,
    "APITimeoutError": _SLOW_SERVICE,
    "ConnectTimeoutError": _SLOW_SERVICE,
    "ReadTimeoutError": _SLOW_SERVICE,
    "ConnectionError": _UNREACHABLE,
    "ClientConnectionError": _UNREACHABLE,
    "APIConnectionError": _UNREACHABLE,
    "NetworkError": _UNREACHABLE,
    "RemoteProtocolError": _UNREACHABLE,
    "IncompleteRead": _UNREACHABLE,
    "gaierror": _UNREACHABLE,
    "RateLimitError": _UNAVAILABLE,
    "RateLimitExceeded": _UNAVAILABLE,
    "TooManyRequests": _UNAVAILABLE,
    "ServiceUnavailable": _UNAVAILABLE,
    "PermissionError": _FORBIDDEN,
    "FileNotFoundError": _NOT_THERE,
    "MemoryError": OUT_OF_MEMORY,
}

_KIND_BY_ERRNO: Final = {
    errno.ENETDOWN: _UNREACHABLE,
    errno.ENETUNREACH: _UNREACHABLE,
    errno.EHOSTDOWN: _UNREACHABLE,
    errno.EHOSTUNREACH: _UNREACHABLE,
    errno.ENOSPC: _NO_ROOM,
    errno.EDQUOT: _NO_ROOM,
}
