"""Following the project: the moves of the store and the feed of the pool as one stream.

The daemon is asked up to which move its feed is complete. Up to there, and no further, both are
read and put into one order, so numbers only ever grow, and whoever comes back with the last number
it has seen misses nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import msgspec

from acode.clock import iso, ticks
from acode.errors import AcodeError, TaskNotFound
from acode.gateway.daemon import Daemon
from acode.model.event import event_of
from acode.model.state import Status
from acode.model.task import Move, Task
from acode.observe.feed import SPAN, FeedReader, entries
from acode.store.base import Store
from acode.views import duration_ms, failure_view

POLL_SECONDS = 0.05
QUIET_POLL_SECONDS = 0.25
"""While nothing happens."""
HEARTBEAT_SECONDS = 15.0
CHUNK = 1_000

Batch = list[tuple[int, bytes]]
"""Events as JSON, each with its number."""
Listener = Callable[[Batch], None]
"""Hears batches; an empty one is a sign of life."""

_encode = msgspec.json.Encoder().encode


class Follower:
    """One reader for any number of listeners; it reads only while there are some."""

    def __init__(self, feed_file: str, store: Store, daemon: Daemon) -> None:
        self._feed_file = feed_file
        self._store = store
        self._daemon = daemon
        self._listeners: set[Listener] = set()
        self._running: asyncio.Task[None] | None = None
        self._started = asyncio.Event()
        self._place = 0
        """The move up to which everything was told."""
        self.last = 0
        """The number of the last event that was told."""
        self._read: Batch = []
        """Out of the feed, and not told yet."""

    async def join(self, listener: Listener) -> int:
        """Hear every batch from now on; the number after which they begin."""
        self._listeners.add(listener)
        if self._running is None:
            self._started.clear()
            self._running = asyncio.create_task(self._run(), name="follower")
        try:
            await self._started.wait()
        except BaseException:
            self.leave(listener)
            raise
        return self.last

    def leave(self, listener: Listener) -> None:
        """Hear no more."""
        self._listeners.discard(listener)

    async def stop(self) -> None:
        """Tell nobody anything any more."""
        self._listeners.clear()
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running

    async def _run(self) -> None:
        reader = FeedReader(self._feed_file)
        rest = POLL_SECONDS
        told = ticks()
        try:
            while self._listeners:
                batch = await self._next(reader)
                if batch:
                    self.last = batch[-1][0]
                if batch or ticks() - told >= HEARTBEAT_SECONDS:
                    told = ticks()
                    self._tell(batch)
                rest = POLL_SECONDS if batch else min(rest * 1.3, QUIET_POLL_SECONDS)
                await asyncio.sleep(rest)
        finally:
            reader.close()
            self._running = None

    async def _next(self, reader: FeedReader) -> Batch:
        """What has come since the last time; the first time only where that is."""
        try:
            newest = int((await self._daemon.ask("feed"))["newestMove"])
            self._read += [(entry.seq, line) for entry, line in reader.read()]
            if not self._started.is_set():
                self._place = newest
                self.last = max(newest * SPAN, await asyncio.to_thread(self._newest_told))
                self._started.set()
            batch = await self._moves(self._place, newest)
        except AcodeError:
            return []  # the daemon or the store is busy; nothing is lost, it is read later
        batch += self._read
        self._place, self._read = newest, []
        return sorted(pair for pair in batch if pair[0] > self.last)

    def _newest_told(self) -> int:
        return max((entry.seq for entry, _ in entries(self._feed_file)), default=0)

    async def _moves(self, after: int, newest: int) -> Batch:
        batch: Batch = []
        while after < newest:
            moves = [move for move in await self._store.moves(after, CHUNK) if move.seq <= newest]
            if not moves:
                break
            batch += [await self._event(move) for move in moves]
            after = moves[-1].seq
        return batch

    async def _event(self, move: Move) -> tuple[int, bytes]:
        event = event_of(move)
        payload = {**event.payload, **await self._details(move)}
        seq = move.seq * SPAN
        return seq, _encode(
            {
                "seq": seq,
                "type": event.type,
                "payload": payload,
                "timestamp": iso(event.timestamp),
            }
        )

    async def _details(self, move: Move) -> dict[str, Any]:
        """What the move itself does not say: the worker, the result, the failure."""
        if move.became is Status.RUNNING:
            return {"workerId": move.actor.removeprefix("worker-")}
        if move.became in (Status.COMPLETED, Status.FAILED):
            with suppress(TaskNotFound):  # archived between two looks
                return _outcome(await self._store.get(move.task_id), move.became)
        return {}

    def _tell(self, batch: Batch) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(batch)
            except Exception:  # one listener in trouble is no trouble of the others
                self._listeners.discard(listener)

    async def replay(self, since: int, until: int) -> AsyncIterator[Batch]:
        """Everything after one number up to another, in order, a part at a time."""
        kept = await asyncio.to_thread(self._kept, since, until)
        place, last = since // SPAN, until // SPAN
        while place < last:
            end = place + CHUNK
            batch = await self._moves(place, min(end, last))
            upto = min(end, last) * SPAN
            batch += [pair for pair in kept if pair[0] < upto]
            kept = [pair for pair in kept if pair[0] >= upto]
            place = end
            if batch:
                yield sorted(batch)
        if kept:
            yield kept

    def _kept(self, since: int, until: int) -> Batch:
        found = [(entry.seq, line) for entry, line in entries(self._feed_file)]
        return sorted(pair for pair in found if since < pair[0] <= until)


def heartbeat(last: int, now: int) -> bytes:
    """A sign of life; it repeats the last number, so that coming back with it misses nothing."""
    return _encode({"seq": last, "type": "heartbeat", "payload": {}, "timestamp": iso(now)})


def _outcome(task: Task, became: Status) -> dict[str, Any]:
    if became is Status.FAILED:
        return {"error": task.error and failure_view(task.error), "workerId": task.worker_id}
    result = task.result
    return {
        "workerId": task.worker_id,
        "result": {
            "exitCode": result and result.exit_code,
            "durationMs": duration_ms(task),
            "branch": result and result.branch,
            "patch": result and result.patch,
            "artifacts": result.artifacts if result else (),
        },
    }
