"""`/api/events`: everything that happens, numbered, to whoever follows it."""

from contextlib import suppress

from starlette.websockets import WebSocket, WebSocketDisconnect

from acode.gateway.desk import Desk
from acode.gateway.follow import Batch, Follower, heartbeat
from acode.gateway.problems import problem
from acode.gateway.wire import EXTENSION, Wire, frame

MAX_CLIENTS = 1_000
MAX_BACKLOG_BYTES = 4 << 20
"""A reader that is so far behind is dropped; it can come back and ask for what it missed."""
MAX_HELD = 1_000
TRY_AGAIN_LATER = 1013


class Batches:
    """The frames of the batch at hand, encoded for the first client and used by all."""

    def __init__(self) -> None:
        self._batch: Batch = []
        self._frames = b""

    def frames(self, batch: Batch) -> bytes:
        """All events of a batch as they go over the wire."""
        if batch is not self._batch:
            self._batch, self._frames = batch, b"".join([frame(text) for _, text in batch])
        return self._frames


class Client:
    """One who follows: first what it missed, then all that comes."""

    def __init__(self, wire: Wire, desk: Desk, batches: Batches) -> None:
        self._wire = wire
        self._clock = desk.clock
        self._follower: Follower = desk.follower
        self._batches = batches
        self._last = 0
        self._live = False
        self._held: list[Batch] = []

    async def begin(self, since: int | None) -> None:
        """Join, and catch up from there on."""
        now = await self._follower.join(self.hear)
        self._last = now if since is None else since
        while not self._live:
            await self._catch_up()

    async def _catch_up(self) -> None:
        until = self._follower.last
        async for batch in self._follower.replay(self._last, until):
            self._send(batch)
            await self._wire.writable.wait()
        self._last = max(self._last, until)
        self._live = len(self._held) <= MAX_HELD
        held, self._held = self._held, []
        if self._live:
            for batch in held:
                self._send(batch)

    def hear(self, batch: Batch) -> None:
        """One more batch of the follower; an empty one is a sign of life."""
        if self._live:
            self._send(batch)
        elif len(self._held) <= MAX_HELD:
            self._held.append(batch)

    def _send(self, batch: Batch) -> None:
        if self._wire.backlog > MAX_BACKLOG_BYTES:
            self.leave()
            self._wire.drop(TRY_AGAIN_LATER, "too slow: come back with since")
            return
        if not batch:
            self._wire.write(frame(heartbeat(self._last, self._clock.now())))
            return
        if batch[0][0] > self._last:
            self._wire.write(self._batches.frames(batch))
        else:
            self._wire.write(b"".join([frame(text) for seq, text in batch if seq > self._last]))
        self._last = max(self._last, batch[-1][0])

    def leave(self) -> None:
        """Follow no more."""
        self._follower.leave(self.hear)


class EventStream:
    """The route."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._batches = Batches()
        self._count = 0

    async def serve(self, socket: WebSocket) -> None:
        """Serve one client until it leaves."""
        since = socket.query_params.get("since")
        if since is not None and not (since.isdecimal() and since.isascii() and len(since) < 17):
            await socket.send_denial_response(problem(422, "since: a number is expected"))
            return
        if self._count >= MAX_CLIENTS:
            await socket.send_denial_response(
                problem(503, "too many follow already", retry_after=5)
            )
            return
        await socket.accept()
        client = Client(socket.scope["extensions"][EXTENSION], self._desk, self._batches)
        self._count += 1
        try:
            await client.begin(None if since is None else int(since))
            await _until_it_leaves(socket)
        finally:
            self._count -= 1
            client.leave()


async def _until_it_leaves(socket: WebSocket) -> None:
    """What a client says is read, so that it cannot pile up, and not heeded."""
    with suppress(WebSocketDisconnect, RuntimeError):
        while (await socket.receive())["type"] != "websocket.disconnect":
            pass
