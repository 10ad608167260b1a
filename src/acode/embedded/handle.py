"""The other end of a submission: waits for what becomes of a task."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import msgspec

from acode.errors import (
    AcodeError,
    PoolStopped,
    TaskCancelled,
    TaskFailed,
    TaskTimedOut,
    TaskTimeout,
)
from acode.model.failure import Failure, FailureCode
from acode.model.state import Status
from acode.model.task import Task
from acode.runner.calling import RemoteError
from acode.runner.handlers import Handler

R = TypeVar("R")


class Fate(msgspec.Struct, frozen=True):
    """How a task ended; no status if the pool stopped before."""

    status: Status | None
    value: Any = None
    failure: Failure | None = None
    cause: BaseException | None = None


def fate_of(task: Task) -> Fate:
    """The end of a task as the store tells it."""
    value = task.result.value if task.result else None
    return Fate(task.status, value, task.error)


class TaskHandle(Generic[R]):
    """A submitted task. Dropping the handle does not drop the task."""

    __slots__ = ("_fate", "_handler", "_id")

    def __init__(
        self,
        task_id: str,
        fate: "asyncio.Future[Fate] | Callable[[], Awaitable[Fate]]",
        handler: Handler | None = None,
    ) -> None:
        self._id = task_id
        self._fate = fate
        self._handler = handler

    @property
    def id(self) -> str:
        """The task's id."""
        return self._id

    def __repr__(self) -> str:
        return f"TaskHandle({self._id!r})"

    async def result(self, timeout: float | None = None) -> R:  # noqa: ASYNC109 -- the contract's word
        """What the handler returned.

        Raises `TaskFailed` from what the handler raised, `TaskCancelled`, `PoolStopped`, or
        `TaskTimeout` if there is no result after so many seconds; the task goes on then.
        """
        if timeout is None:
            return self._told(await self._awaited())
        try:
            async with asyncio.timeout(timeout) as wait:
                fate = await self._awaited()
        except TimeoutError:
            if not wait.expired():
                raise
            raise TaskTimeout(f"task {self._id} has no result after {timeout:g} s") from None
        return self._told(fate)

    def _awaited(self) -> Awaitable[Fate]:
        fate = self._fate
        if not isinstance(fate, asyncio.Future):
            return fate()
        # Whoever gives up waiting must not take the fate from others who wait.
        return fate if fate.done() else asyncio.shield(fate)

    def _told(self, fate: Fate) -> R:
        match fate.status:
            case Status.COMPLETED:
                value: R = fate.value
                return value if self._handler is None else self._handler.returned(value)
            case Status.FAILED:
                error = failed_error(self._id, fate)
                raise error from error.__cause__
            case Status.CANCELLED:
                raise TaskCancelled(f"task {self._id} was cancelled")
            case _:
                raise PoolStopped(f"the pool stopped before task {self._id} was done")


def failed_error(task_id: str, fate: Fate) -> TaskFailed:
    """The error that tells of a task which failed for good, with its cause."""
    failure = fate.failure
    late = failure is not None and failure.code is FailureCode.TIMEOUT and fate.cause is None
    kind = TaskTimedOut if late else TaskFailed
    message = failure.message if failure else "it failed"
    error = kind(f"task {task_id} failed: {message}", failure.hint if failure else None)
    error.task_id, error.failure = task_id, failure
    error.__cause__ = fate.cause or _remembered(fate)
    return error


def _remembered(fate: Fate) -> AcodeError | None:
    """What is left of an exception once only the store knows of it."""
    return RemoteError(fate.failure.message, fate.failure.hint) if fate.failure else None


class Waiters:
    """Those who wait for tasks of this pool. A task that is finished is forgotten here."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._futures: dict[str, asyncio.Future[Fate]] = {}

    def expect(self, task_id: str) -> "asyncio.Future[Fate]":
        """A future for the end of a task."""
        future = self._futures.get(task_id)
        if future is None:
            future = self._futures[task_id] = self._loop.create_future()
        return future

    def waits_for(self, task_id: str) -> bool:
        """Whether somebody wants to know."""
        return task_id in self._futures

    def forget(self, task_id: str) -> None:
        """Nobody will hear of it."""
        self._futures.pop(task_id, None)

    def tell(self, task_id: str, fate: Fate) -> None:
        """A task is finished."""
        future = self._futures.pop(task_id, None)
        if future is not None and not future.done():
            future.set_result(fate)

    def tell_all(self, fate: Fate) -> None:
        """Nothing more will be finished."""
        for task_id in tuple(self._futures):
            self.tell(task_id, fate)
