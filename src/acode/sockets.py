"""Unix sockets under any path, and who is at the other end."""

import _socket  # `socket` itself costs every command 5 ms, for names that nobody here needs
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

_MAX_PATH_BYTES = 107
_PEER = struct.Struct("3i")


@contextmanager
def short_path(path: str) -> Iterator[str]:
    """A name for a socket that the kernel takes, however long the path is."""
    if len(os.fsencode(path)) <= _MAX_PATH_BYTES:
        yield path
        return
    directory = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{os.path.basename(path)}"
    finally:
        os.close(directory)


def listen(path: str, backlog: int = 128) -> "socket.socket":
    """A listening socket at the path, in place of one that a crash left."""
    import socket

    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        if os.path.lexists(path):
            os.unlink(path)
        with short_path(path) as short:
            listener.bind(short)
        listener.listen(backlog)
    except BaseException:
        listener.close()
        raise
    return listener


def connect(path: str) -> "socket.socket":
    """A connection to whoever listens there."""
    import socket

    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short_path(path) as short:
            connection.connect(short)
    except BaseException:
        connection.close()
        raise
    return connection


def is_trusted(connection: "socket.socket") -> bool:
    """Whether the other end runs as the same user, or as root."""
    peer = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _PEER.size)
    _, uid, _ = _PEER.unpack(peer)
    return uid in (os.geteuid(), 0)


def call(path: str, seconds: float) -> _socket.socket:
    """A bare connection for a command in a hurry; nothing on it takes longer than this."""
    wire = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    wire.settimeout(seconds)
    try:
        with short_path(path) as short:
            wire.connect(short)
    except BaseException:
        wire.close()
        raise
    return wire


class Rope:
    """Rings a bell socket without waiting. Whoever holds it for long finds the bell of the day."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._wire: _socket.socket | None = None
        self._take()

    def pull(self) -> bool:
        """Ring; says whether somebody was there to hear it."""
        return self._rings() or (self._take() and self._rings())

    def _rings(self) -> bool:
        try:
            if self._wire is not None:
                self._wire.send(b"!")
        except BlockingIOError:
            return True  # it rings already
        except OSError:
            return False  # whoever had hung it up is gone
        return self._wire is not None

    def _take(self) -> bool:
        self.close()
        wire = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
        try:
            wire.setblocking(False)
            with short_path(self._path) as short:
                wire.connect(short)
        except OSError:
            wire.close()
            return False
        self._wire = wire
        return True

    def close(self) -> None:
        """Let go of it."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None
