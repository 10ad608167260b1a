"""Every background service has the same shape: a tick that says how long to rest."""

import asyncio
from collections.abc import Awaitable, Callable

from acode.engine.bell import Bell
from acode.model.event import PoolNote
from acode.observe.events import Events

Tick = Callable[[], Awaitable[float]]

ERROR_REST_SECONDS = 1.0
"""How long a service rests after a tick that went wrong."""


class Service:
    """Ticks and rests until it is stopped. Stopping before starting, or twice, is fine."""

    def __init__(self, name: str, tick: Tick, events: Events, bell: Bell | None = None) -> None:
        self.name = name
        self._events = events
        self._tick = tick
        self._bell = bell or Bell()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._trouble = ""

    def start(self) -> None:
        """Begin to tick."""
        if self._task is None and not self._stopping:
            self._task = asyncio.get_running_loop().create_task(self._run(), name=self.name)

    async def _run(self) -> None:
        while not self._stopping:
            try:
                rest = await self._tick()
            except Exception as error:  # the pool must not go on without one of its services
                self._complain(f"{self.name}: {type(error).__name__}: {error}")
                rest = ERROR_REST_SECONDS
            else:
                self._trouble = ""
            await self._bell.wait(rest)

    def _complain(self, trouble: str) -> None:
        """Once is enough for what goes on and on."""
        if trouble != self._trouble:
            self._events.emit(PoolNote("error", trouble))
        self._trouble = trouble

    async def stop(self) -> None:
        """Let the tick under way finish, then end."""
        self._stopping = True
        self._bell.ring()
        if self._task is not None:
            await self._task
