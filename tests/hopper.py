"""A process that is never the same for long: it forks and ends all the time."""

import fcntl
from pathlib import Path

HOPPER = """
import fcntl, os, sys, time
held = open(sys.argv[1], "w")
fcntl.flock(held, fcntl.LOCK_EX)
open(sys.argv[1] + ".started", "w").close()
end = time.monotonic() + 120
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
    if "session" in sys.argv:
        os.setsid()
"""
"""All generations hold the same lock."""


def is_free(lock: Path) -> bool:
    """Whether none of them lives any more."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def has_started(lock: Path) -> bool:
    """Whether the first one has the lock."""
    return Path(f"{lock}.started").exists()
