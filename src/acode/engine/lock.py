"""One daemon per project: a lock that a crash releases."""

import fcntl
import os

import msgspec

from acode.errors import PoolRunning
from acode.model.worker import ProcessIdentity
from acode.runner.identity import myself


class DaemonLock:
    """Held as long as the daemon lives, by the kernel's own reckoning."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

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
        os.close(self._descriptor)


def holder(path: str) -> ProcessIdentity | None:
    """Who holds the lock; None if nobody does."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        try:
            return msgspec.json.decode(os.read(descriptor, 4096), type=ProcessIdentity)
        except msgspec.MsgspecError:
            return ProcessIdentity(0, 0, "")  # it has just begun and not signed yet
    else:
        return None
    finally:
        os.close(descriptor)
