"""What an attempt may use, and what happens if it uses more."""

from enum import StrEnum

import msgspec

MEGABYTE = 1024 * 1024

CPU = "cpuPercent"
MEMORY = "memoryMb"
DISK = "diskMb"
PROCESSES = "maxProcesses"
"""The limits by the names that the settings have for them."""


class OverLimitAction(StrEnum):
    """What happens to an attempt that uses more than it may."""

    WARN = "warn"
    THROTTLE = "throttle"
    KILL = "kill"


class AttemptLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one attempt is held to."""

    cpu_percent: float = 25
    memory_mb: int = 512
    disk_mb: int = 1024
    max_processes: int = 50
    max_open_files: int = 1024
    action: OverLimitAction = OverLimitAction.WARN

    @property
    def memory_bytes(self) -> int:
        """The limit of memory, in bytes."""
        return self.memory_mb * MEGABYTE

    @property
    def disk_bytes(self) -> int:
        """The limit of disk, in bytes."""
        return self.disk_mb * MEGABYTE


class Over(msgspec.Struct, frozen=True):
    """One limit that an attempt has gone over."""

    what: str
    limit: float
    used: float

    def __str__(self) -> str:
        return f"{self.what} is {self.used:.10g}, the limit is {self.limit:.10g}"
