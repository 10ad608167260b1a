"""The daemon's ends of the wires: to each worker, and to the zygote."""

import asyncio
from collections.abc import Callable
from typing import cast

from acode.clock import Clock
from acode.sockets import connect
from acode.worker.wire import BrokenFrame, Frame, FrameReader, FrameType, pack

OnFrame = Callable[[Frame], None]
OnClose = Callable[[], None]

# One for all links: it is emptied before the loop reads again. A fresh one for every read, as
# asyncio would make it, takes a tenth of the main thread when commands are short.
_received = memoryview(bytearray(1 << 16))


class Link(asyncio.BufferedProtocol):
    """Frames in, frames out."""

    def __init__(self, clock: Clock, on_frame: OnFrame, on_close: OnClose) -> None:
        self._clock = clock
        self._on_frame = on_frame
        self._on_close = on_close
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The wire is up."""
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Where to put what comes next."""
        return _received

    def buffer_updated(self, nbytes: int) -> None:
        """Hand over every complete frame."""
        try:
            for frame in self._reader.feed(_received[:nbytes]):
                self._on_frame(frame)
        except BrokenFrame:
            self.close()

    def connection_lost(self, _error: Exception | None) -> None:
        """The other end is gone, or we are."""
        self._transport = None
        self._on_close()

    def send(self, kind: FrameType, id_: str, payload: object) -> None:
        """Send a frame; into the void if the other end is gone, which somebody else notices."""
        if self._transport is not None:
            self._transport.write(pack(kind, id_, self._clock.now(), payload))

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()


async def connect_worker(path: str, clock: Clock, on_frame: OnFrame, on_close: OnClose) -> Link:
    """Call a worker at its socket."""
    wire = connect(path)
    wire.setblocking(False)
    loop = asyncio.get_running_loop()
    _, link = await loop.create_unix_connection(lambda: Link(clock, on_frame, on_close), sock=wire)
    return link
