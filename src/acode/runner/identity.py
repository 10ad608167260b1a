"""Who a process is: pid, start time and boot id together name it for ever."""

import os
from functools import cache

from acode.model.worker import ProcessIdentity


@cache
def boot_id() -> str:
    """Names the time since the machine was started."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def start_time(pid: int) -> int | None:
    """When the process was started, in ticks since boot; None if it is gone or a zombie."""
    fields = _stat(pid)
    return int(fields[19]) if fields and fields[0] not in ("Z", "X") else None


def parent(pid: int) -> int | None:
    """The parent's pid; None if the process is gone."""
    fields = _stat(pid)
    return int(fields[1]) if fields else None


def _stat(pid: int) -> list[str] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name is in parentheses and may hold anything, parentheses too.
            return file.read().rpartition(b")")[2].decode().split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def identify(pid: int) -> ProcessIdentity | None:
    """The identity of a live process."""
    started = start_time(pid)
    return None if started is None else ProcessIdentity(pid, started, boot_id())


def myself() -> ProcessIdentity:
    """The identity of this process."""
    return ProcessIdentity(os.getpid(), start_time(os.getpid()) or 0, boot_id())


def is_alive(process: ProcessIdentity) -> bool:
    """Whether this very process still runs; a later one with the same pid does not count."""
    return process.boot_id == boot_id() and start_time(process.pid) == process.start_time
