"""One thread wakes another."""

# A lock by itself: `threading.Event` makes a second one for each wait, in several calls of Python,
# and whatever code a worker process runs changes pages that it would share otherwise.

from _thread import allocate_lock


class Nudge:
    """Given by one thread, taken by another one; two that nobody has taken yet are one."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._lock.acquire()

    def give(self) -> None:
        """Wake who waits, or whoever waits next."""
        if self._lock.locked():  # the only one who opens it is who asks here
            self._lock.release()

    def wait(self, seconds: float = -1) -> bool:
        """Take it as soon as it is there, or give up after so many seconds; whether it came."""
        return self._lock.acquire(timeout=seconds)

    def forget(self) -> None:
        """What was given until now was for nothing."""
        self._lock.acquire(blocking=False)
