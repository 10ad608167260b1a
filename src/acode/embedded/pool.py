"""`acode.Pool`: the pool inside a Python program."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from acode.clock import Clock, SystemClock
from acode.embedded.handle import Fate, TaskHandle
from acode.embedded.heart import Heart
from acode.embedded.letters import DeadLetters
from acode.embedded.request import Options, Request, request_for
from acode.embedded.seen import SeenTask, seen
from acode.embedded.statistics import PoolStats
from acode.embedded.wanted import Wanted
from acode.errors import DrainTimeout, PoolStopped, QueueFull
from acode.ids import new_ids
from acode.model.event import Event
from acode.model.task import Submission
from acode.policy.breaker import Breaker
from acode.policy.retry import Retry
from acode.runner.handlers import Handler, Hook
from acode.store.base import Added, Store

R = TypeVar("R")
ACTOR = "program"


class Pool:
    """Workers for Python handlers, with a queue that may outlive the program.

    Use it as an async context manager, or call `start` and `stop`. It belongs to the event loop
    that it was started in, and lives once.
    """

    def __init__(
        self,
        *,
        workers: int = 3,
        queue_size: int = 100,
        task_timeout: float = 300.0,
        shutdown_timeout: float = 30.0,
        store: str = "memory",
        isolation: Literal["inline", "process"] = "inline",
        retry: Retry | None = None,
        breaker: Breaker | None = None,
        ageing_minutes: float = 10.0,
        stall_timeout: float = 60.0,
        keep_history_days: float = 30.0,
        checkpoint_max_age_days: float = 7.0,
        on_failure: Hook | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Only remember what is wanted; nothing happens before `start`."""
        self._wanted = Wanted(
            workers=workers,
            queue_size=queue_size,
            task_timeout=task_timeout,
            shutdown_timeout=shutdown_timeout,
            store=store,
            isolation=isolation,
            retry=retry or Retry(),
            breaker=breaker or Breaker(),
            ageing_minutes=ageing_minutes,
            stall_timeout=stall_timeout,
            keep_history_days=keep_history_days,
            checkpoint_max_age_days=checkpoint_max_age_days,
            on_failure=on_failure,
        )
        self._clock = clock or SystemClock()
        self._heart: Heart | None = None
        self._over = False
        self._stopping: asyncio.Task[None] | None = None
        self.dead_letters = DeadLetters(lambda: self._alive().store, self._requeue, ACTOR)
        """Tasks that failed for good: `list()`, `get(id)`, `retry(id)`, `drop(id)`."""

    # Beginning and end.

    async def start(self) -> None:
        """Open the store, take up what an earlier run left, and begin to work."""
        if self._over:
            raise PoolStopped("the pool has stopped", "make a new one")
        if self._heart is None:
            self._heart = self._made()
            try:
                await self._heart.start()
            except BaseException:
                self._heart, self._over = None, True
                raise

    def _made(self) -> Heart:
        return Heart(self._wanted, self._clock)

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 -- the contract's word
        """Take nothing more, let running tasks finish, then let go of everything.

        Tasks that are not done after `timeout` seconds (`shutdown_timeout` if not given) are
        cancelled and released, and `DrainTimeout` names them. Stopping twice is fine.
        """
        self._over = True
        if self._heart is None:
            return
        if self._stopping is None:
            patience = self._wanted.shutdown_timeout if timeout is None else timeout
            self._stopping = asyncio.get_running_loop().create_task(self._heart.stop(patience))
        # Whoever is cancelled while waiting does not leave a pool that is half stopped.
        await asyncio.shield(self._stopping)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        try:
            await self.stop()
        except DrainTimeout as late:
            if error is None:
                raise
            error.add_note(str(late))  # what went wrong first is what is raised

    async def serve(self) -> None:
        """Work until SIGTERM or SIGINT asks for the end, then `stop`."""
        import signal

        asked = asyncio.Event()
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGTERM, signal.SIGINT)
        for number in numbers:
            loop.add_signal_handler(number, asked.set)
        try:
            await self.start()
            await asked.wait()
            await self.stop()
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def _alive(self) -> Heart:
        if self._heart is None or self._over:
            what = "has stopped" if self._over else "is not started"
            raise PoolStopped(f"the pool {what}")
        return self._heart

    # Tasks.

    @overload
    async def submit(
        self, handler: Callable[..., Awaitable[R]], *args: Any, **options: Unpack[Options]
    ) -> TaskHandle[R]: ...
    @overload
    async def submit(
        self, handler: Callable[..., R], *args: Any, **options: Unpack[Options]
    ) -> TaskHandle[R]: ...
    @overload
    async def submit(
        self, handler: str, *args: Any, **options: Unpack[Options]
    ) -> TaskHandle[Any]: ...

    async def submit(
        self, handler: Callable[..., Any] | str, *args: Any, **options: Unpack[Options]
    ) -> TaskHandle[Any]:
        """Queue one call of a handler; returns when the task is stored.

        Options: `priority` (high, medium, low, background), `retries`, `workstream`, `key`,
        `delay` and `timeout` in seconds, `title`, `metadata`. A full queue raises `QueueFull` at
        once; what is no JSON value raises `InvalidTask`. A submit that is cancelled leaves no task.
        """
        (handle,) = await self._submit(request_for(handler, options), [args])
        return handle

    async def submit_many(
        self,
        handler: Callable[..., Any] | str,
        arguments: Iterable[Sequence[Any]],
        **options: Unpack[Options],
    ) -> list[TaskHandle[Any]]:
        """Queue a call for each tuple of arguments, all or none, in one write."""
        return await self._submit(request_for(handler, options), arguments)

    async def _submit(
        self, request: Request, arguments: Iterable[Sequence[Any]]
    ) -> list[TaskHandle[Any]]:
        heart, now = self._alive(), self._clock.now()
        specs = [request.spec(args) for args in arguments]
        new = list(map(Submission, new_ids(now, len(specs)), specs))
        futures = [heart.waiters.expect(one.id) for one in new]
        try:
            added = await self._add(heart, new)
        except BaseException:
            for one in new:
                heart.waiters.forget(one.id)
            raise
        return [
            self._handle(heart, one, mine, future, request.handler)
            for one, mine, future in zip(added, new, futures, strict=True)
        ]

    async def _add(self, heart: Heart, new: list[Submission]) -> list[Added]:
        heart.expect()
        try:
            size = self._wanted.queue_size
            return await heart.store.add(new, actor=ACTOR, queue_size=size, seen=heart.added)
        except QueueFull as error:
            hint = "wait until some are done, or make the pool with a larger queue_size"
            raise QueueFull(str(error), hint) from None
        except asyncio.CancelledError:
            # The write may be under way; whoever gave up must not find the task running later.
            heart.withdraw([one.id for one in new])
            raise

    def _handle(
        self,
        heart: Heart,
        added: Added,
        mine: Submission,
        future: "asyncio.Future[Fate]",
        handler: Handler | None,
    ) -> TaskHandle[Any]:
        if added.existed:
            heart.waiters.forget(mine.id)
            return TaskHandle(added.id, lambda: heart.fate(added.id), handler)
        return TaskHandle(added.id, future, handler)

    def handle(self, task_id: str) -> TaskHandle[Any]:
        """A handle of any task in the store, for example one that an earlier run submitted."""
        heart = self._alive()
        return TaskHandle(task_id, lambda: heart.fate(task_id))

    async def cancel(self, task_id: str) -> None:
        """Cancel a waiting task, or ask a running one to end."""
        await self._alive().cancel(task_id)

    async def get(self, task_id: str) -> SeenTask:
        """One task with its history and its attempts."""
        return seen(await self._alive().store.record(task_id))

    async def _requeue(self, task_id: str, reset_attempts: bool) -> TaskHandle[Any]:
        heart = self._alive()
        future = await heart.requeue(task_id, reset_attempts)
        return TaskHandle(task_id, future)

    # The pool.

    async def scale(self, workers: int) -> None:
        """Another number of workers; those that are busy finish their task first."""
        if not isinstance(workers, int) or workers < 1:
            raise ValueError(f"a pool has at least 1 worker, not {workers!r}")
        await self._alive().scale(workers)

    def stats(self) -> PoolStats:
        """What the pool does and has done."""
        if self._heart is None:
            raise PoolStopped("the pool is not started")
        return self._heart.stats()

    def events(self) -> AsyncIterator[Event]:
        """Everything that happens from now on; ends when the pool has stopped."""
        if self._heart is None:
            raise PoolStopped("the pool is not started")
        return self._heart.stream.read()

    @property
    def _store(self) -> Store:
        return self._alive().store
