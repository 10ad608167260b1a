"""What is told only when it is on disk: nobody hears of something that a power cut could undo."""

import asyncio
from collections.abc import Callable, Iterable

from acode.engine.bell import Bell
from acode.errors import AcodeError
from acode.model.event import PoolEvent
from acode.observe.events import Events
from acode.store.base import Store


class Outbox:
    """Events wait here for the disk, in order, while those whom they are about go on."""

    def __init__(
        self, store: Store, events: Events, complain: Callable[[AcodeError], None], rest: float
    ) -> None:
        self._store = store
        self._events = events
        self._complain = complain
        self._rest = rest
        """Seconds between two tries of a disk that fails."""
        self.pause = 0.0
        """Seconds from what is to be told to the telling: what comes meanwhile goes with it."""
        self._bell = Bell()
        self._waiting: list[PoolEvent] = []
        self._telling: asyncio.Task[None] | None = None

    def put(self, events: Iterable[PoolEvent]) -> None:
        """Tell this when what has been written until now is on disk."""
        if not self._store.settles_later:
            self._emit(events)
            return
        self._waiting += events
        if self._waiting and self._telling is None:
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        while self._waiting:
            # First, so that the disk does not get in the way of the command that begins now.
            if self.pause:
                await self._bell.wait(self.pause)
            due, self._waiting = self._waiting, []
            await self.settled()
            self._emit(due)
        self._telling = None

    def _emit(self, events: Iterable[PoolEvent]) -> None:
        for event in events:
            self._events.emit(event)

    async def settled(self) -> None:
        """Wait for the disk, however long it takes."""
        while True:
            try:
                await self._store.settled()
            except AcodeError as error:
                self._complain(error)
                await asyncio.sleep(self._rest)
            else:
                return

    async def close(self) -> None:
        """Tell the rest."""
        self.pause = 0.0
        self._bell.ring()
        if self._telling is not None:
            await self._telling
