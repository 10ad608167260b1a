"""Coroutines that usually do not wait are run at once, and go on as soon as they can."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from acode.clock import Deadline

Work = Coroutine[Any, Any, None]
OnError = Callable[[BaseException], None]


class Errands:
    """Runs coroutines that nobody awaits, keeps hold of them, and tells of their errors."""

    def __init__(self, on_error: OnError) -> None:
        self._on_error = on_error
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: dict[Work, asyncio.Future[Any]] = {}
        """What each of those that were run waits for."""

    def run(self, work: Work) -> None:
        """Run the engine's own work: up to where it waits, and on from there.

        A task of the loop for each would take longer than most of them. Without one nothing may
        ask for the current task, as `asyncio.timeout` does.
        """
        try:
            awaited = work.send(None)
        except StopIteration:
            return
        except asyncio.CancelledError:
            return  # the pool does not want it any more
        except Exception as error:
            self._on_error(error)
            return
        # A future that is yielded says so; whoever drives the coroutine takes the mark off.
        awaited._asyncio_future_blocking = False
        self._waiting[work] = awaited
        awaited.add_done_callback(partial(self._go_on, work))

    def _go_on(self, work: Work, _done: object) -> None:
        del self._waiting[work]
        self.run(work)

    def later(self, work: Work) -> None:
        """Run whatever it is as a task."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_error(error)

    async def settle(self, seconds: float) -> None:
        """Wait until nothing is under way, or for so long."""
        deadline = Deadline(seconds)
        while (self._tasks or self._waiting) and deadline.left() > 0:
            awaited = [*self._tasks, *self._waiting.values()]
            await asyncio.wait(awaited, timeout=deadline.left())

    async def cancel(self) -> None:
        """End what is under way."""
        for task in tuple(self._tasks):
            task.cancel()
        for awaited in tuple(self._waiting.values()):
            awaited.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
