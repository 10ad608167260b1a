"""The frames between daemon and worker: a length, then type, id, timestamp and payload."""

import struct
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from acode.errors import AcodeError

_LENGTH = struct.Struct(">I")
MAX_FRAME_BYTES = 16 * 1024 * 1024


class FrameType(StrEnum):
    """What a frame is about."""

    TASK = "task"
    RESULT = "result"
    HEARTBEAT = "heartbeat"
    LOG = "log"
    ERROR = "error"
    CONTROL = "control"
    LIMIT = "limit"


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One message. An answer has the id of what it answers."""

    type: FrameType
    id: str
    timestamp: int
    payload: msgspec.Raw


class BrokenFrame(AcodeError):
    """The other side sent something that is no frame."""

    code = "IPC_FAILURE"


encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Frame).decode

P = TypeVar("P")


def pack(kind: FrameType, id_: str, timestamp: int, payload: Any) -> bytes:
    """A frame as bytes."""
    body = payload if type(payload) is msgspec.Raw else msgspec.Raw(encode(payload))
    return wrap(encode(Frame(kind, id_, timestamp, body)))


def unpack(frame: Frame, shape: type[P]) -> P:
    """The payload in its shape."""
    try:
        return msgspec.msgpack.decode(frame.payload, type=shape)
    except msgspec.MsgspecError as error:
        raise BrokenFrame(f"a {frame.type} frame cannot be read: {error}") from error


def wrap(body: bytes) -> bytes:
    """A body behind its length."""
    return _LENGTH.pack(len(body)) + body


class BodyReader:
    """Turns a stream of bytes into the bodies that were wrapped, however it was cut."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes | memoryview) -> Iterator[bytes]:
        """Every body that is complete now."""
        self._buffer += data
        while (body := self._next()) is not None:
            yield body

    def _next(self) -> bytes | None:
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > MAX_FRAME_BYTES:
            raise BrokenFrame(f"a frame of {length} bytes is too large")
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        body = bytes(memoryview(self._buffer)[_LENGTH.size : end])
        del self._buffer[:end]
        return body


class FrameReader:
    """Turns a stream of bytes into frames."""

    def __init__(self) -> None:
        self._bodies = BodyReader()

    def feed(self, data: bytes | memoryview) -> Iterator[Frame]:
        """Every frame that is complete now."""
        for body in self._bodies.feed(data):
            try:
                yield _decode(body)
            except msgspec.MsgspecError as error:
                raise BrokenFrame(f"a frame cannot be read: {error}") from error
