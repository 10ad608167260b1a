"""What a handler is given: who it is, what is done already, and a way to keep what it does."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, ParamSpec, Protocol, TypeVar, overload

import msgspec

from acode.model.failure import Failure
from acode.runner.values import plain

P = ParamSpec("P")
R = TypeVar("R")


class Call(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One attempt of a handler: everything that has to be known to run it."""

    token: str
    task_id: str
    number: int
    name: str
    path: str | None = None
    arguments: tuple[Any, ...] = ()
    steps: dict[str, Any] = {}
    timeout_seconds: float = 300.0


class Keeper(Protocol):
    """Whoever keeps the steps of an attempt, for a handler that awaits."""

    async def save_step(self, call: Call, step: str, value: Any) -> None:
        """Keep the value; it is durable when this returns. A stale attempt gets `LeaseLost`."""
        ...

    def warn(self, call: Call, message: str) -> None:
        """Something went wrong that does not matter."""
        ...


class SyncKeeper(Protocol):
    """The same for a handler in a thread."""

    def save_step(self, call: Call, step: str, value: Any) -> None:
        """Keep the value; it is durable when this returns."""
        ...

    def warn(self, call: Call, message: str) -> None:
        """Something went wrong that does not matter."""
        ...


class _Base:
    """What both contexts have."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._steps = dict(call.steps)
        self._failed: tuple[str, BaseException] | None = None

    @property
    def task_id(self) -> str:
        """The task's id, the same for all its attempts."""
        return self._call.task_id

    @property
    def attempt(self) -> int:
        """The number of this attempt; the first is 1."""
        return self._call.number

    @property
    def type(self) -> str:
        """The name of the handler."""
        return self._call.name

    @property
    def timeout(self) -> float:
        """How many seconds this attempt may take."""
        return self._call.timeout_seconds

    @property
    def checkpoint(self) -> Mapping[str, Any]:
        """The finished steps and their values, of the attempts before as well."""
        return MappingProxyType(self._steps)

    def _keep(self, name: str, value: Any) -> Any:
        kept = self._steps[name] = plain(value, f"the value of step {name}")
        return kept

    def _fails(self, name: str, error: BaseException) -> None:
        self._failed = self._failed or (name, error)

    def blame(self, error: BaseException, failure: Failure) -> Failure:
        """The failure with the step that it began in."""
        if self._failed is None or failure.failed_step is not None:
            return failure
        step, began = self._failed
        chain: BaseException | None = error
        while chain is not None and chain is not began:
            chain = chain.__cause__ or chain.__context__
        return failure if chain is None else msgspec.structs.replace(failure, failed_step=step)


class Context(_Base):
    """What an async handler gets first."""

    def __init__(self, call: Call, keeper: Keeper) -> None:
        super().__init__(call)
        self._keeper = keeper

    @overload
    async def step(
        self, name: str, function: Callable[..., Awaitable[R]], *args: Any, critical: bool = True
    ) -> R: ...
    @overload
    async def step(
        self, name: str, function: Callable[..., R], *args: Any, critical: bool = True
    ) -> R: ...

    async def step(
        self, name: str, function: Callable[..., Any], *args: Any, critical: bool = True
    ) -> Any:
        """Run a function once in the life of the task and keep its JSON value.

        A later attempt gets the kept value instead. A step that is not critical only warns when
        it fails; its value is then `None` and the next attempt tries it again.
        """
        if name in self._steps:
            return self._steps[name]
        try:
            value = function(*args)
            if inspect.isawaitable(value):
                value = await value
            kept = self._keep(name, value)
        except Exception as error:
            self._fails(name, error)
            if critical:
                raise
            self._failed = None
            self._keeper.warn(self._call, _warning(name, error))
            return None
        await self._keeper.save_step(self._call, name, kept)
        return kept


class SyncContext(_Base):
    """What a handler that is a plain function gets first; it runs in a thread."""

    def __init__(self, call: Call, keeper: SyncKeeper, is_stopped: Callable[[], bool]) -> None:
        super().__init__(call)
        self._keeper = keeper
        self._is_stopped = is_stopped

    @property
    def stopped(self) -> bool:
        """Whether the attempt is over for everybody else: cancelled, timed out or released."""
        return self._is_stopped()

    def step(self, name: str, function: Callable[..., R], *args: Any, critical: bool = True) -> R:
        """Run a function once in the life of the task and keep its JSON value, as `Context.step`.

        A thread cannot be interrupted, so an attempt that was stopped ends here.
        """
        if self.stopped:
            raise Stopped
        if name in self._steps:
            return self._steps[name]  # type: ignore[no-any-return]
        try:
            kept = self._keep(name, function(*args))
        except Exception as error:
            self._fails(name, error)
            if critical:
                raise
            self._failed = None
            self._keeper.warn(self._call, _warning(name, error))
            return None  # type: ignore[return-value]  # not critical: the caller can do without
        self._keeper.save_step(self._call, name, kept)
        return kept  # type: ignore[no-any-return]


class Stopped(BaseException):
    """Ends a handler that nobody waits for any more. No handler should catch it."""


def _warning(name: str, error: BaseException) -> str:
    return f"step {name} failed and is left out: {type(error).__name__}: {error}"
