"""What the engine tells the world beyond its log: the feed, figures, the governance file."""

import asyncio
import os
from contextlib import suppress
from typing import Any

from acode.clock import Clock, iso
from acode.engine.dispatcher import Dispatcher
from acode.engine.feed import Feed
from acode.engine.roster import LIVE, Roster, Slot
from acode.engine.service import Service
from acode.errors import AcodeError
from acode.model.event import TOLD, PoolEvent, PoolNote, TaskEnded
from acode.model.state import Status, WorkerStatus
from acode.observe import governance
from acode.observe.events import Events
from acode.observe.figures import COUNTED, Figures
from acode.observe.lately import DAY_MINUTES, MINUTE_MS, Lately
from acode.project import Project
from acode.settings import Settings
from acode.store.base import Counts, Store

SAMPLE_SECONDS = 5.0
DEBOUNCE_SECONDS = 2.0
"""The governance file is not written more often, whatever happens."""
CHUNK = 1_000

_WRONG = frozenset({WorkerStatus.ERROR, WorkerStatus.CRASHED, WorkerStatus.FAILED})
_MOVING = frozenset({WorkerStatus.STARTING, WorkerStatus.STOPPING})


class Reporting:
    """Listens to everything and changes nothing."""

    def __init__(
        self,
        project: Project,
        settings: Settings,
        store: Store,
        roster: Roster,
        dispatcher: Dispatcher,
        clock: Clock,
        events: Events,
    ) -> None:
        self._store = store
        self._roster = roster
        self._dispatcher = dispatcher
        self._clock = clock
        self._events = events
        self._governance = settings.governance
        self._path = os.path.join(project.root, settings.governance.path)
        self._cursor = 0
        """The move up to which arrivals are counted."""
        self._counting = asyncio.Lock()
        self._lately = Lately()
        self._is_stale = True
        self._is_refused = False
        self._lookup: asyncio.Task[None] | None = None
        self.figures = Figures()
        self.feed = Feed(project.feed_file, store, clock)
        self._services = [
            Service("feed", self.feed.tick, events),
            Service("figures", self.sample, events),
        ]
        if self._governance.enabled:
            self._services.append(Service("governance", self.govern, events))
        events.subscribe(self.feed.hear, *TOLD)
        events.subscribe(self.figures.hear, *COUNTED)
        events.subscribe(self._hear)

    async def start(self) -> None:
        """Begin; what happened before is looked up meanwhile."""
        self._cursor = await self._store.newest_move()
        for service in self._services:
            service.start()
        self._lookup = asyncio.get_running_loop().create_task(self._remember(), name="lately")

    async def close(self) -> None:
        """Say the last word."""
        if self._lookup is not None:
            self._lookup.cancel()
        for service in self._services:
            await service.stop()
        with suppress(AcodeError):  # a store that is away has nothing to tell, and nobody to hear
            if self._governance.enabled:
                self._publish({**await self.state(), "status": "stopped"})
        await self.feed.close()

    def _hear(self, event: PoolEvent) -> None:
        self._is_stale = True
        if isinstance(event, TaskEnded) and event.status is Status.COMPLETED:
            self._lately.add(self._clock.now(), event.took_ms)

    async def sample(self) -> float:
        """Keep how things stand; how long to rest."""
        counts = await self._store.counts()
        await self.count_arrivals()
        moment = {
            "at": iso(self._clock.now()),
            "pending": counts.by_status[Status.PENDING],
            "running": counts.by_status[Status.RUNNING],
            "busy": self._roster.count(lambda slot: slot.status is WorkerStatus.BUSY),
            "workers": len(self._roster),
            "completed": self.figures.total(Status.COMPLETED),
            "failed": self.figures.total(Status.FAILED),
        }
        self.figures.samples.append(moment)
        return SAMPLE_SECONDS

    async def count_arrivals(self) -> None:
        """Count the tasks that were added since the last time."""
        async with self._counting:
            newest = await self._store.newest_move()
            came = await self._store.arrivals(self._cursor, newest)
            self.figures.saw_waiting((await self._store.counts()).waiting)
            self.figures.counters["submitted"] += came
            self._cursor = newest

    async def _remember(self) -> None:
        """What was completed today before this daemon was started, a little at a time."""
        last, since = self._cursor, self._clock.now() - DAY_MINUTES * MINUTE_MS
        place = await self._first_since(since, last)
        began: dict[str, int] = {}
        while place < last and (moves := await self._store.moves(place, CHUNK)):
            for move in moves:
                if move.became is Status.RUNNING:
                    began[move.task_id] = move.at
                elif move.became is Status.COMPLETED and move.seq <= last:
                    self._lately.add(move.at, move.at - began.pop(move.task_id, move.at))
            place = moves[-1].seq

    async def _first_since(self, moment: int, last: int) -> int:
        """A move before which nothing is younger than that."""
        low, high = 0, last
        while low < high:
            middle = (low + high) // 2
            found = await self._store.moves(middle, 1)
            if found and found[0].at < moment:
                low = middle + 1
            else:
                high = middle
        return low

    async def govern(self) -> float:
        """Publish the state if it may have changed; how long to rest."""
        if self._is_stale:
            self._is_stale = False
            state = await self.state()
            await asyncio.to_thread(self._publish, state)
        return DEBOUNCE_SECONDS

    def _publish(self, state: dict[str, Any]) -> None:
        refused = not governance.publish(self._path, state)
        if refused and not self._is_refused:
            note = f"{self._path} holds no JSON object; it is left as it is"
            self._events.emit(PoolNote("warning", note))
        self._is_refused = refused

    async def state(self) -> dict[str, Any]:
        """The pool as the governance file shows it."""
        counts, slots = await self._store.counts(), list(self._roster)
        completed, average = self._lately.summary(self._clock.now())
        return {
            "status": self._status(slots),
            "totalWorkers": len(slots),
            "activeWorkers": sum(slot.status is WorkerStatus.BUSY for slot in slots),
            "idleWorkers": sum(slot.status is WorkerStatus.IDLE for slot in slots),
            "errorWorkers": sum(slot.status in _WRONG for slot in slots),
            "tasksQueued": _queued(counts),
            "tasksCompleted24h": completed,
            "avgTaskDurationMs": average,
            "workers": [_summary(slot) for slot in slots],
        }

    def _status(self, slots: list[Slot]) -> str:
        live = sum(slot.status in LIVE for slot in slots)
        if any(slot.status in _WRONG for slot in slots) or self._dispatcher.backpressure:
            return "degraded"
        if live != self._roster.wanted or any(slot.status in _MOVING for slot in slots):
            return "scaling"
        return "running"


def _queued(counts: Counts) -> int:
    return counts.by_status[Status.PENDING] + counts.by_status[Status.BLOCKED]


def _summary(slot: Slot) -> dict[str, Any]:
    seen = slot.seen()
    return {
        "id": seen.id,
        "status": seen.status.value,
        "pid": seen.process.pid if seen.process else None,
        "mode": seen.mode.value,
        "currentTaskId": seen.current_task_id,
        "tasksCompleted": seen.tasks_completed,
        "tasksFailed": seen.tasks_failed,
        "restarts": seen.restarts,
    }
