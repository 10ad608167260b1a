"""One daemon per project: a lock that a crash releases."""

import fcntl
import os

import msgspec

from acode.errors import PoolRunning
from acode.model.worker import ProcessIdentity
from acode.runner.identity import is_alive, myself

_open: set[int] = set()


def _close_in_child() -> None:
    """A lock is shared with whoever is forked, and would last as long as they live."""
    while _open:
        os.close(_open.pop())


os.register_at_fork(after_in_child=_close_in_child)


class DaemonLock:
    """Held as long as the daemon lives, by the kernel's own reckoning."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        _open.add(self._descriptor)

    def take(self) -> None:
        """Be the daemon of this project, or say that there is one."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PoolRunning("the worker pool of this project runs already") from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, msgspec.json.encode(myself()), 0)

    def release(self) -> None:
        """Let the next one be it."""
        _open.discard(self._descriptor)
        os.close(self._descriptor)


def holder(path: str) -> ProcessIdentity | None:
    """The daemon that signed the lock and lives; None if there is none.

    The lock itself is not tried: whoever only looks must not keep a daemon from taking it.
    """
    try:
        with open(path, "rb") as file:
            process = msgspec.json.decode(file.read(), type=ProcessIdentity)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None
    return process if is_alive(process) else None
