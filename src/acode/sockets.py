"""Unix sockets under any path, and who is at the other end."""

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

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


def listen(path: str, backlog: int = 128) -> socket.socket:
    """A listening socket at the path, in place of one that a crash left."""
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


def connect(path: str) -> socket.socket:
    """A connection to whoever listens there."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short_path(path) as short:
            connection.connect(short)
    except BaseException:
        connection.close()
        raise
    return connection


def is_trusted(connection: socket.socket) -> bool:
    """Whether the other end runs as the same user, or as root."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    _, uid, _ = _PEER.unpack(peer)
    return uid in (os.geteuid(), 0)


def ring(path: str) -> bool:
    """Ring a bell socket without waiting; says whether somebody was there to hear it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as wire:
        try:
            with short_path(path) as short:
                wire.sendto(b"!", short)
        except BlockingIOError:
            return True  # it rings already
        except OSError:
            return False
        return True
