"""Coroutines that usually do not wait are run at once; only those that do wait become tasks."""

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any

from acode.clock import Deadline


class Errands:
    """Runs coroutines that nobody awaits, keeps hold of them, and tells of their errors."""

    def __init__(self, on_error: Any) -> None:
        self._on_error = on_error
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it up to where it waits for the first time, and the rest as a task."""
        try:
            waits_for = work.send(None)
        except StopIteration:
            return
        except Exception as error:
            self._on_error(error)
            return
        self.later(_rest(work, waits_for))

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it as a task."""
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
        while self._tasks and deadline.left() > 0:
            await asyncio.wait(self._tasks, timeout=deadline.left())

    async def cancel(self) -> None:
        """End what is under way."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _rest(work: Coroutine[Any, Any, None], waits_for: Any) -> None:
    await _Resumed(work, waits_for)


class _Resumed:
    """The remainder of a coroutine that has been started by hand."""

    def __init__(self, work: Coroutine[Any, Any, None], waits_for: Any) -> None:
        self._work = work
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, None]:
        waits_for = self._waits_for
        while True:
            try:
                # A future that is yielded says so; whoever drives us will look for the mark.
                sent = yield waits_for
            except BaseException as error:
                step = self._throw(error)
            else:
                step = self._send(sent)
            if step is None:
                return
            (waits_for,) = step

    def _send(self, value: Any) -> tuple[Any] | None:
        try:
            return (self._work.send(value),)
        except StopIteration:
            return None

    def _throw(self, error: BaseException) -> tuple[Any] | None:
        try:
            return (self._work.throw(error),)
        except StopIteration:
            return None
