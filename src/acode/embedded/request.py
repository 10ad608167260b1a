"""From the arguments of `submit` to a checked submission, and from a lease back to a call."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypedDict

import msgspec
from msgspec.structs import replace

from acode.errors import InvalidTask
from acode.model.priority import Priority
from acode.model.task import Lease, TaskSpec
from acode.runner.context import Call
from acode.runner.handlers import Handler, handler_of
from acode.runner.values import plain, plain_all

ARGUMENTS: Final = "arguments"
"""Where the JSON arguments of a handler lie in a task's metadata."""
PATH: Final = "handler"
"""Where the import path of a handler lies."""

MAX_RETRIES: Final = 100


class Options(TypedDict, total=False):
    """What a submission may say besides the arguments of its handler."""

    priority: str
    retries: int | None
    workstream: str | None
    key: str | None
    delay: float
    timeout: float | None
    title: str | None
    metadata: Mapping[str, Any] | None


class Request:
    """Checks a handler and options once, for any number of arguments."""

    def __init__(self, handler: Callable[..., Any] | str, options: Options) -> None:
        if unknown := sorted(options.keys() - Options.__annotations__.keys()):
            known = ", ".join(Options.__annotations__)
            raise InvalidTask(f"submit has no option {unknown[0]}", f"it has {known}")
        self.name, self.handler = handler_of(handler)
        self._note = dict(plain(dict(options.get("metadata") or {}), "metadata"))
        if path := _path(self.handler):
            self._note[PATH] = path
        self._priority = _priority(options.get("priority", "medium"))
        self._retries = _retries(options.get("retries"))
        self._delay = _seconds("delay", options.get("delay", 0.0))
        self._timeout = _timeout(options.get("timeout"))
        self._workstream = _text("workstream", options.get("workstream"))
        self._key = _text("key", options.get("key"))
        self._title = _text("title", options.get("title"))

    def spec(self, args: Sequence[Any]) -> TaskSpec:
        """What a task with these arguments asks for."""
        if type(args) is not tuple and (isinstance(args, str) or not isinstance(args, Sequence)):
            hint = "give a tuple for each call: [(1,), (2,)]"
            raise InvalidTask(f"{args!r:.50} is no tuple of arguments", hint)
        if self.handler is not None:
            self.handler.check_count(len(args))
        return TaskSpec(
            command=self.name,
            type="python",
            title=self._title,
            priority=self._priority,
            workstream_id=self._workstream,
            timeout_seconds=self._timeout,
            retry_limit=self._retries,
            key=self._key,
            delay_seconds=self._delay,
            metadata={**self._note, ARGUMENTS: plain_all(args) if args else ()},
        )


def request_for(handler: Callable[..., Any] | str, options: Options) -> Request:
    """A request; the same one again for a function that is submitted without options."""
    if options or isinstance(handler, str):
        return Request(handler, options)
    _, known = handler_of(handler)
    return Request(handler, options) if known is None else _plain_request(known)


@lru_cache(128)
def _plain_request(handler: Handler) -> Request:
    return Request(handler.function, {})


class DaemonRequest(Request):
    """The same for a daemon, which imports the handler by its path and passes words to it."""

    def spec(self, args: Sequence[Any]) -> TaskSpec:
        """What a task with these arguments asks for."""
        spec = super().spec(args)
        values = plain_all(args)
        # A last word that is an object is taken for named arguments.
        values = (*values, {}) if values and isinstance(values[-1], dict) else values
        note = {name: v for name, v in spec.metadata.items() if name not in (ARGUMENTS, PATH)}
        words = tuple(msgspec.json.encode(value).decode() for value in values)
        return replace(spec, command=self._importable(), args=words, metadata=note)

    def _importable(self) -> str:
        path = _path(self.handler) or self.name
        if ":" not in path:
            raise InvalidTask(
                f"the daemon cannot import {self.name}",
                "put it at the top of a module and submit it, or submit module:name",
            )
        return path


class Calls:
    """Writes calls for the leases of one pool."""

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout = timeout_seconds

    def assignment(self, lease: Lease) -> Call:
        """Everything that the worker needs to know."""
        spec = lease.task.spec
        return Call(
            token=lease.token,
            task_id=lease.task.id,
            number=lease.number,
            name=spec.command,
            path=spec.metadata.get(PATH),
            arguments=tuple(spec.metadata.get(ARGUMENTS, spec.args)),
            steps=lease.steps,
            timeout_seconds=spec.timeout_seconds or self._timeout,
        )


def _path(handler: Handler | None) -> str | None:
    """Where others can import it from, if they can."""
    if handler is None or handler.path.startswith("__main__:") or "<" in handler.path:
        return None
    return handler.path


def _priority(value: str) -> Priority:
    try:
        return Priority(value)
    except ValueError:
        known = ", ".join(Priority)
        raise InvalidTask(f"priority {value!r} is none of {known}") from None


def _retries(value: int | None) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_RETRIES:
        raise InvalidTask(f"retries {value!r} is no number from 0 to {MAX_RETRIES}")
    return value


def _seconds(name: str, value: float) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not 0 <= value < math.inf:
        raise InvalidTask(f"{name} {value!r} is no number of seconds")
    return float(value)


def _timeout(value: float | None) -> float | None:
    if value is None:
        return None
    if not _seconds("timeout", value):
        raise InvalidTask("timeout must be more than 0 seconds")
    return float(value)


def _text(name: str, value: str | None) -> str | None:
    if value is None or (isinstance(value, str) and value):
        return value
    raise InvalidTask(f"{name} {value!r} is no text")
