"""Workers inside the embedding program: async handlers in its event loop, others in threads."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from acode.clock import Clock, ticks
from acode.embedded.order import Order
from acode.embedded.worker import Desk
from acode.errors import InvalidTask
from acode.model.ending import Exited, NotStarted
from acode.runner import calling
from acode.runner.context import Call, Context, Stopped, SyncContext
from acode.runner.handlers import Handler

COROUTINE_GRACE = 10.0
"""Seconds that a cancelled coroutine may take to clean up."""
THREAD_GRACE = 1.0
"""Seconds that a stopped thread may take to notice; it cannot be interrupted."""


class InlineWorker:
    """One attempt at a time: a task of the loop, or a call in the worker's own thread."""

    def __init__(
        self, worker_id: str, desk: Desk, clock: Clock, note: Callable[[str], None] | None
    ) -> None:
        self.id = worker_id
        self._note = note
        """Told of the token of every attempt before it begins."""
        self.leaving = False
        self._desk = desk
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._order: Order | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread: _HandlerThread | None = None
        self._grace: asyncio.TimerHandle | None = None
        # No handler sees the context variables that another one has set.
        self._context = contextvars.copy_context()

    @property
    def current(self) -> Order | None:
        """The attempt that runs."""
        return self._order

    @property
    def load(self) -> int:
        """Attempts that it has."""
        return 0 if self._order is None else 1

    def room(self, _depth: int) -> int:
        """One attempt at a time; waiting ones wait with the crew."""
        return 0 if self.leaving or self._order is not None else 1

    def begin(self, order: Order) -> None:
        """Run an attempt."""
        self._order = order
        if self._note is not None:
            self._note(order.lease.token)
        self._desk.started(order)
        try:
            handler = calling.found(order.call)
        except InvalidTask as error:
            failure = calling.failure_of(error, None, self._clock.now())
            self._loop.call_soon(self._end, order, NotStarted(failure), error)
            return
        if handler.is_async:
            self._task = self._loop.create_task(
                self._run(order, handler), context=self._context.copy()
            )
        else:
            self._in_thread(order, handler)

    async def _run(self, order: Order, handler: Handler) -> None:
        context = Context(order.call, self._desk)
        try:
            value = await calling.run(handler, order.call, context)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # a handler that exits must not take the program with it
            self._failed(order, error, context)
        else:
            self._succeeded(order, value)

    def _in_thread(self, order: Order, handler: Handler) -> None:
        if self._thread is None:
            self._thread = _HandlerThread(self._loop, f"acode-worker-{self.id[-6:]}")
        context = SyncContext(
            order.call, _FromThread(self._desk, self._loop), lambda: order.why is not None
        )

        def work() -> Callable[[], None]:
            alone = self._context.copy()
            try:
                value = alone.run(calling.run_plainly, handler, order.call, context)
            except BaseException as raised:  # whatever it is, it must not end the thread
                error = raised
                return lambda: self._failed(order, error, context)
            return lambda: self._succeeded(order, value)

        self._thread.run(work)

    def _succeeded(self, order: Order, value: Any) -> None:
        if not order.over:
            self._free(order)
            self._desk.ended(order, Exited(0), seconds=ticks() - order.began, value=value)

    def _failed(
        self, order: Order, error: BaseException, context: Context | SyncContext | None
    ) -> None:
        if order.over:
            return
        if order.why is not None:
            self._end(order, order.interrupted())
            return
        failure = calling.failure_of(error, context, self._clock.now())
        self._free(order)
        seconds = ticks() - order.began
        self._desk.ended(order, Exited(1), seconds=seconds, failure=failure, cause=error)

    def _end(self, order: Order, ending: Any, cause: BaseException | None = None) -> None:
        if not order.over:
            self._free(order)
            self._desk.ended(order, ending, seconds=ticks() - order.began, cause=cause)

    def _free(self, order: Order) -> None:
        order.over = True
        self._order = self._task = None
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None

    def interrupt(self, order: Order, *, force: bool) -> None:
        """Cancel the coroutine, or ask the thread; whoever does not listen is left behind."""
        if order is not self._order:
            return
        patience = THREAD_GRACE if self._task is None else COROUTINE_GRACE
        if self._task is not None:
            self._task.cancel()
        if self._grace is not None:
            self._grace.cancel()
        self._grace = self._loop.call_later(0 if force else patience, self._abandon, order)

    def _abandon(self, order: Order) -> None:
        """Its handler goes on without anybody listening; what it would keep is refused."""
        if order.over:
            return
        if self._task is None and self._thread is not None:
            self._thread.close()
            self._thread = None
        self._desk.warn(order.call, "its handler does not end and is left behind")
        self._end(order, order.interrupted())

    def relieve(self) -> None:
        """Nothing waits here."""

    async def close(self) -> None:
        """Nothing runs any more; the thread ends by itself."""
        if self._thread is not None:
            self._thread.close()
            self._thread = None


class _FromThread:
    """The desk as a handler in a thread sees it."""

    def __init__(self, desk: Desk, loop: asyncio.AbstractEventLoop) -> None:
        self._desk = desk
        self._loop = loop

    def save_step(self, call: Call, step: str, value: Any) -> None:
        """Wait until the step is kept."""
        try:
            saving = asyncio.run_coroutine_threadsafe(
                self._desk.save_step(call, step, value), self._loop
            )
        except RuntimeError:
            raise Stopped from None  # the loop is gone, and the pool with it
        saving.result()

    def warn(self, call: Call, message: str) -> None:
        """Pass a warning on."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._desk.warn, call, message)


class _HandlerThread:
    """A thread for handlers. It does not keep the program from ending."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        from queue import SimpleQueue  # only for handlers that are plain functions

        self._loop = loop
        self._work: SimpleQueue[Callable[[], Callable[[], None]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Callable[[], Callable[[], None]]) -> None:
        """Do the work there, then what it returns in the loop."""
        self._work.put(work)

    def close(self) -> None:
        """End after what is under way."""
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            then = work()
            with suppress(RuntimeError):  # the loop is gone
                self._loop.call_soon_threadsafe(then)
            del work, then
