"""What happens in an embedded pool, for whoever iterates over it."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from acode.clock import Clock
from acode.model.event import Event, PoolEvent, TaskAssigned, TaskEnded, TaskRefused
from acode.model.state import Status
from acode.observe.events import Events

BUFFERED = 10_000
"""Events that wait for one reader; of one that is slower still the oldest are lost."""

_ENDED = {
    Status.COMPLETED: "task.completed",
    Status.FAILED: "task.failed",
    Status.CANCELLED: "task.cancelled",
    Status.PENDING: "task.requeued",
}


class Stream:
    """Hands every event to every reader."""

    def __init__(self, clock: Clock, events: Events) -> None:
        self._clock = clock
        self._events = events
        self._seq = 0
        self._readers: set[_Reader] = set()
        self._ended = False

    @property
    def is_read(self) -> bool:
        """Whether anybody reads."""
        return bool(self._readers)

    def put(self, type_: str, payload: dict[str, Any]) -> None:
        """Something happened."""
        self._seq += 1
        event = Event(type_, payload, self._clock.now(), self._seq)
        for reader in self._readers:
            reader.put(event)

    def _tell(self, event: PoolEvent) -> None:
        self.put(*_words(event))

    def end(self) -> None:
        """Nothing will happen any more."""
        self._ended = True
        for reader in self._readers:
            reader.end()

    def read(self) -> AsyncIterator[Event]:
        """Every event from now on, until the end."""
        reader = _Reader(self._leave)
        if self._ended:
            reader.end()
            return reader
        if not self._readers:
            self._events.subscribe(self._tell)
        self._readers.add(reader)
        return reader

    def _leave(self, reader: "_Reader") -> None:
        self._readers.discard(reader)
        if not self._readers:
            self._events.unsubscribe(self._tell)


class _Reader:
    """One who iterates; whoever goes away is forgotten."""

    def __init__(self, leave: "Callable[[_Reader], None]") -> None:
        self._leave = leave
        self._events: deque[Event] = deque(maxlen=BUFFERED)
        self._over = False
        self._wake = asyncio.Event()

    def put(self, event: Event) -> None:
        """Keep it until it is read."""
        self._events.append(event)
        self._wake.set()

    def end(self) -> None:
        """There is nothing after what is here."""
        self._over = True
        self._wake.set()

    def __aiter__(self) -> "_Reader":
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            if self._over:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        return self._events.popleft()

    async def aclose(self) -> None:
        """Read no more."""
        self._leave(self)


def _words(event: PoolEvent) -> tuple[str, dict[str, Any]]:
    match event:
        case TaskEnded():
            payload = {**_about(event.task_id, event.worker_id, event.number)}
            payload |= {"status": event.status.value, "reason": event.reason}
            if event.failure is not None:
                payload["error"] = msgspec.to_builtins(event.failure)
            return _ENDED[event.status], payload
        case TaskAssigned():
            about = _about(event.task_id, event.worker_id, event.number)
            return "task.assigned", {**about, "waitedMs": event.waited_ms}
        case TaskRefused():
            return "task.refused", {"taskId": event.task_id, "workerId": event.worker_id}
        case _:
            told: dict[str, Any] = msgspec.to_builtins(event)
            return told.pop("type"), {_camel(name): value for name, value in told.items()}


def _about(task_id: str, worker_id: str, number: int) -> dict[str, Any]:
    return {"taskId": task_id, "workerId": worker_id, "attempt": number}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)
