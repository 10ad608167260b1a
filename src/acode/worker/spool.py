"""One slot on disk per worker for the ending that is not acknowledged yet.

Written in place and not synced: it has to outlive the processes, not the machine. A worker runs
one attempt at a time and gets the next only after the last is acknowledged, so one slot is enough.
"""

import os
import struct
from contextlib import suppress
from zlib import crc32

import msgspec

from acode.worker.messages import Ended

ROOM_BYTES = 4096
"""Taken in advance, so that an ending finds room on a disk that is full by then."""

_HEAD = struct.Struct(">II")
_decode = msgspec.msgpack.Decoder(Ended).decode


class Spool:
    """The slot of one worker."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with suppress(OSError):  # not every file system can
            os.posix_fallocate(self._descriptor, 0, ROOM_BYTES)

    def keep(self, body: bytes) -> None:
        """Write an ending, as it goes over the wire, over whatever was there."""
        try:
            os.pwrite(self._descriptor, _HEAD.pack(len(body), crc32(body)) + body, 0)
        except OSError:
            return  # a disk without room: the daemon hears of it from us

    def close(self) -> None:
        """Let go of the file; it stays."""
        os.close(self._descriptor)


def read(path: str) -> Ended | None:
    """The ending in a slot; None if there is none, or a torn one."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return None
    if len(data) < _HEAD.size:
        return None
    length, checksum = _HEAD.unpack_from(data)
    if length == 0:
        return None
    body = data[_HEAD.size : _HEAD.size + length]
    if len(body) != length or crc32(body) != checksum:
        return None
    return _decode(body)
