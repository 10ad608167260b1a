"""The exit codes of a worker."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a worker's end means."""

    CLEAN = 0
    TASK_FAILED = 1
    """It was told to go, and its last task had failed."""
    CONFIGURATION = 2
    """It cannot use the directories that it was given."""
    TOOL_NOT_FOUND = 3
    """A required program is not there for it."""
    BUG = 70
    KILLED = 137
    TERMINATED = 143
