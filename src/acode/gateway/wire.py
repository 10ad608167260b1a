"""WebSockets on the wire: the same frames for any number of clients, encoded once."""

from struct import pack
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

EXTENSION = "acode.wire"
LINGER_SECONDS = 5.0
"""How long a dropped reader has to read why."""


def frame(text: bytes) -> bytes:
    """A text frame; what a server sends is not masked, so it is the same for everybody."""
    size = len(text)
    if size < 126:
        return pack("!BB", 0x81, size) + text
    if size < 65_536:
        return pack("!BBH", 0x81, 126, size) + text
    return pack("!BBQ", 0x81, 127, size) + text


class Wire(WebSocketsSansIOProtocol):
    """Uvicorn's protocol, which also takes frames that are encoded already."""

    def handle_connect(self, event: Request) -> None:
        """Give the application a hold of the wire."""
        super().handle_connect(event)
        scope: dict[str, Any] = getattr(self, "scope", {})
        if scope:
            scope["extensions"][EXTENSION] = self

    @property
    def is_open(self) -> bool:
        """Whether anything can be written."""
        return self.handshake_complete and not (
            self.disconnected or self.close_sent or self.transport.is_closing()
        )

    @property
    def backlog(self) -> int:
        """Bytes that the other end has not taken yet."""
        return self.transport.get_write_buffer_size()

    def write(self, frames: bytes) -> None:
        """Send frames; nobody waits for the other end."""
        if self.is_open:
            self.transport.write(frames)

    def drop(self, code: int, reason: str) -> None:
        """Hang up and say why; whoever does not read that either is cut off."""
        if not self.is_open:
            return
        self.conn.send_close(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)
