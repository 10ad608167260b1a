"""Every background service has the same shape: a tick that says how long to rest."""

import asyncio
from collections.abc import Awaitable, Callable

from acode.engine.bell import Bell

Tick = Callable[[], Awaitable[float]]


class Service:
    """Ticks and rests until it is stopped. Stopping before starting, or twice, is fine."""

    def __init__(self, name: str, tick: Tick, bell: Bell | None = None) -> None:
        self.name = name
        self._tick = tick
        self._bell = bell or Bell()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    def start(self) -> None:
        """Begin to tick."""
        if self._task is None and not self._stopping:
            self._task = asyncio.get_running_loop().create_task(self._run(), name=self.name)

    async def _run(self) -> None:
        while not self._stopping:
            rest = await self._tick()
            await self._bell.wait(rest)

    async def stop(self) -> None:
        """Let the tick under way finish, then end."""
        self._stopping = True
        self._bell.ring()
        if self._task is not None:
            await self._task
