"""Work that goes on by itself, and whose errors are told."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from acode.model.event import PoolNote
from acode.observe.events import Events


class Background:
    """Holds on to what runs until it is done."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._running: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin; nobody waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._events.emit(PoolNote("error", f"{type(error).__name__}: {error}"))

    async def close(self) -> None:
        """End everything that is still under way."""
        for task in tuple(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
