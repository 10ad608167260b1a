"""What the machine has left: memory, disk, and how much everybody waits for memory."""

import os
from typing import NamedTuple


class Machine(NamedTuple):
    """The machine at one moment; None is what it does not tell."""

    memory_bytes: int | None
    available_bytes: int | None
    memory_stall_percent: float | None
    """Of the last ten seconds, how much went by with nothing running for want of memory."""
    disk_bytes: int | None
    disk_free_bytes: int | None


def look(directory: str, proc: str = "/proc") -> Machine:
    """What is left, with the disk that this directory is on."""
    memory = _memory(f"{proc}/meminfo")
    disk, free = _disk(directory)
    return Machine(
        memory.get(b"MemTotal:"),
        memory.get(b"MemAvailable:"),
        _stalled(f"{proc}/pressure/memory"),
        disk,
        free,
    )


def _memory(path: str) -> dict[bytes, int]:
    try:
        with open(path, "rb") as file:
            words = [line.split() for line in file]
    except OSError:
        return {}
    return {pair[0]: int(pair[1]) * 1024 for pair in words if len(pair) == 3}


def _stalled(path: str) -> float | None:
    """`full avg10` of a pressure file; kernels without them, and some containers, have none."""
    try:
        with open(path, "rb") as file:
            for line in file:
                if line.startswith(b"full avg10="):
                    return float(line.split()[1].partition(b"=")[2])
    except OSError:
        pass
    return None


def _disk(directory: str) -> tuple[int | None, int | None]:
    try:
        seen = os.statvfs(directory)
    except OSError:
        return None, None
    return seen.f_blocks * seen.f_frsize, seen.f_bavail * seen.f_frsize
