"""What goes between the embedding program and a handler process: a length, then one message."""

import struct
from typing import Any, Generic, TypeVar

import msgspec

from acode.runner.calling import Raised
from acode.runner.context import Call

_LENGTH = struct.Struct(">I")
M = TypeVar("M")


class Run(msgspec.Struct, frozen=True, tag=1, array_like=True):
    """An attempt; it begins after those before it."""

    call: Call


class Revoke(msgspec.Struct, frozen=True, tag=2, array_like=True):
    """Give back what has not begun."""

    tokens: tuple[str, ...]


class Interrupt(msgspec.Struct, frozen=True, tag=3, array_like=True):
    """End this attempt if it runs."""

    token: str


class Kept(msgspec.Struct, frozen=True, tag=4, array_like=True):
    """A step is durable, or was refused."""

    token: str
    refusal: str | None = None


ToWorker = Run | Revoke | Interrupt | Kept


class Done(msgspec.Struct, frozen=True, tag=1, array_like=True):
    """A handler has returned or raised."""

    token: str
    seconds: float
    value: Any = None
    raised: Raised | None = None


class Returned(msgspec.Struct, frozen=True, tag=2, array_like=True):
    """These were not begun and never will be here."""

    tokens: tuple[str, ...]


class Step(msgspec.Struct, frozen=True, tag=3, array_like=True):
    """A step is done; its value wants to be kept."""

    token: str
    name: str
    value: Any


class Warned(msgspec.Struct, frozen=True, tag=4, array_like=True):
    """Something went wrong that does not matter."""

    token: str
    message: str


class Beat(msgspec.Struct, frozen=True, tag=5, array_like=True):
    """A sign of life; the first one is the greeting."""

    pid: int


FromWorker = Done | Returned | Step | Warned | Beat

_encode = msgspec.msgpack.Encoder().encode
# Made once, before workers are forked: to make one reads annotations all over the place, and every
# worker would have pages of its own afterwards.
from_worker: msgspec.msgpack.Decoder[FromWorker] = msgspec.msgpack.Decoder(FromWorker)
to_worker: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker)


def pack(message: ToWorker | FromWorker) -> bytes:
    """A message as bytes."""
    body = _encode(message)
    return _LENGTH.pack(len(body)) + body


class Messages(Generic[M]):
    """Turns a stream of bytes into messages, however it was cut."""

    def __init__(self, decoder: msgspec.msgpack.Decoder[M]) -> None:
        self._decoder = decoder
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[M]:
        """Every message that is complete now."""
        self._buffer += data
        found, place, total = [], 0, len(self._buffer)
        with memoryview(self._buffer) as view:
            while total - place >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(view, place)
                end = place + _LENGTH.size + length
                if end > total:
                    break
                found.append(self._decoder.decode(view[place + _LENGTH.size : end]))
                place = end
        del self._buffer[:place]
        return found
