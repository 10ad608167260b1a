"""Python functions that tasks can name: registered once, found by name or by import path."""

import importlib
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec

from acode.errors import InvalidTask

R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

Hook = Callable[..., Any]
"""Called with the failed task and its error; may be a coroutine function."""

_MARK: Final = "__acode_handler__"
_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Handler:
    """One registered function and what is known of its signature."""

    def __init__(self, name: str, function: Callable[..., Any], on_failure: Hook | None) -> None:
        self.name = name
        self.function = function
        self.on_failure = on_failure
        self.is_async = inspect.iscoroutinefunction(function)
        parameters = list(inspect.signature(function).parameters.values())
        places = [each for each in parameters if each.kind in _POSITIONAL]
        self._names = [each.name for each in places][1:]
        self._least = sum(each.default is each.empty for each in places) - 1
        self._open = any(each.kind is each.VAR_POSITIONAL for each in parameters)
        if not places and not self._open:
            raise InvalidTask(f"handler {name} takes no context", f"write it as def {name}(ctx, …)")
        self._shapes: dict[int, Any] | None = None
        self._result: Any = None

    @property
    def path(self) -> str:
        """Where others find it: `module:name`."""
        return f"{self.function.__module__}:{self.function.__qualname__}"

    def check_count(self, count: int) -> None:
        """Refuse a call that cannot fit, before it is queued."""
        most = "any number of" if self._open else str(len(self._names))
        if count < self._least or (count > len(self._names) and not self._open):
            raise InvalidTask(
                f"handler {self.name} takes {most} arguments after its context, not {count}",
                f"it is {self.name}(ctx, {', '.join(self._names)})",
            )

    def shaped(self, arguments: Sequence[Any]) -> list[Any]:
        """The arguments, those of declared dataclasses and structs made into such."""
        shapes = self._known_shapes()
        if not shapes:
            return list(arguments)
        try:
            return [
                msgspec.convert(value, shapes[place]) if place in shapes else value
                for place, value in enumerate(arguments)
            ]
        except msgspec.ValidationError as error:
            raise InvalidTask(f"an argument of handler {self.name}: {error}") from error

    def alone(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Call it in a process of its own, as the daemon's workers do."""
        from acode.runner.alone import call

        return call(self, arguments, named)

    def returned(self, value: R) -> R:
        """The result as its annotation says, for whoever waits for it."""
        self._known_shapes()
        return value if self._result is None else msgspec.convert(value, self._result)

    def prepare(self) -> None:
        """Look at the annotations now, unless they name what is not there yet."""
        with suppress(Exception):  # somebody else's annotations
            self._look(typing.get_type_hints(self.function))

    def _known_shapes(self) -> dict[int, Any]:
        return self._look(_hints(self.function)) if self._shapes is None else self._shapes

    def _look(self, hints: dict[str, Any]) -> dict[int, Any]:
        named = {place: hints.get(name) for place, name in enumerate(self._names)}
        result = hints.get("return")
        self._result = result if _is_rich(result) else None
        self._shapes = {place: hint for place, hint in named.items() if _is_rich(hint)}
        return self._shapes


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except Exception:  # somebody else's annotations; a name that only a type checker knows
        return {}


def _is_rich(hint: Any) -> bool:
    """Whether a value of this type has to be made from its JSON."""
    if isinstance(hint, type) and (
        issubclass(hint, msgspec.Struct) or hasattr(hint, "__dataclass_fields__")
    ):
        return True
    return any(_is_rich(part) for part in typing.get_args(hint))


class Registry:
    """Handlers by name; the latest of a name is the one that counts."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    def __iter__(self) -> Iterator[Handler]:
        return iter(tuple(self._handlers.values()))

    def add(self, handler: Handler) -> None:
        """Make it known."""
        self._handlers[handler.name] = handler

    def get(self, name: str) -> Handler | None:
        """The handler of this name, if it is known here."""
        return self._handlers.get(name)

    def find(self, name: str, path: str | None = None) -> Handler:
        """By name among those that are known, else by import path."""
        known = self._handlers.get(name)
        if known is not None:
            return known
        for place in (name, path):
            if place is not None and ":" in place:
                return self._imported(place, name)
        raise InvalidTask(
            f"no handler is called {name}",
            "import the module that registers it, or use module:name",
        )

    def _imported(self, path: str, name: str) -> Handler:
        module, _, qualname = path.partition(":")
        try:
            found: Any = importlib.import_module(module)
            for part in qualname.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError, ValueError) as error:
            raise InvalidTask(f"handler {path} cannot be imported: {error}") from error
        # Importing the module has usually registered it.
        known = self._handlers.get(name) or getattr(found, _MARK, None)
        if known is not None:
            return known
        if not callable(found):
            raise InvalidTask(f"{path} is not a function")
        handler = Handler(name, found, None)
        self.add(handler)
        return handler


registry = Registry()
"""The handlers of this process."""


def handler(name: str | None = None, *, on_failure: Hook | None = None) -> Callable[[F], F]:
    """Register a function so that tasks can name it.

    The function stays what it is. `on_failure` is called, in the program that runs the pool, once
    the task has failed for good; a failure of its own only warns.
    """

    def register(function: F) -> F:
        one = Handler(name or function.__name__, function, on_failure)
        registry.add(one)
        setattr(function, _MARK, one)
        return function

    return register


def handler_of(function: Callable[..., Any] | str) -> tuple[str, Handler | None]:
    """The name that a task gets for it, and the handler if this process knows it."""
    if isinstance(function, str):
        return function, registry.get(function)
    one: Handler | None = getattr(function, _MARK, None)
    if one is None:
        called = getattr(function, "__name__", repr(function))
        raise InvalidTask(f"{called} is no handler", "put @acode.handler() above it")
    return one.name, one
