"""Priorities, and how waiting raises them."""

from enum import StrEnum

MINUTE_MS = 60_000


class Priority(StrEnum):
    """Strict among the four levels, first come first served within one."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    BACKGROUND = "background"

    @property
    def level(self) -> int:
        """0 is the most urgent."""
        return _LEVELS[self]

    @classmethod
    def at_level(cls, level: int) -> "Priority":
        """The priority that has this level."""
        return _BY_LEVEL[level]


_BY_LEVEL = tuple(Priority)
_LEVELS = {priority: level for level, priority in enumerate(_BY_LEVEL)}


def aged_level(level: int, waited_ms: int, ageing_ms: int) -> int:
    """The level after waiting: one step up for every `ageing_ms`, never above high."""
    if ageing_ms <= 0 or waited_ms <= 0:
        return level
    return max(0, level - waited_ms // ageing_ms)
