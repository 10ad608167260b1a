"""Who is at the other end of a socket: somebody outside, or a task of our own.

Landlock has no say in connections to sockets that have a path. A task has the rights of the user
who runs the pool, so its user id tells nothing; that it lives below a worker does.
"""

import os
import select
import socket
import struct
from collections.abc import Collection

from acode.runner.identity import parent

_SO_PEERPIDFD = 77
_PEER = struct.Struct("3i")


def is_below(connection: socket.socket, elders: Collection[int]) -> bool:
    """Whether the other end is below one of these processes; one that is gone may have been."""
    descriptor = _grip(connection)
    try:
        pid, _, _ = _PEER.unpack(
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        )
        found = _descends(pid, elders)
        # Only now: a pid of somebody who lived until here was his own all the time.
        return found or (descriptor is not None and _has_ended(descriptor))
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _grip(connection: socket.socket) -> int | None:
    try:
        return connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError:  # before Linux 6.5
        return None


def _has_ended(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _descends(pid: int, elders: Collection[int]) -> bool:
    while pid > 1:
        if pid in elders:
            return True
        above = parent(pid)
        if above is None:
            return True
        pid = above
    return False
