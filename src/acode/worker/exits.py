"""The exit codes of a worker."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a worker's end means."""

    CLEAN = 0
    TASK_FAILED = 1
    CONFIGURATION = 2
    TOOL_NOT_FOUND = 3
    KILLED = 137
    TERMINATED = 143
