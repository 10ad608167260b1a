"""How long a worker may go on by itself where several machines share the queue.

A host that falls silent loses its tasks after a while, and they run elsewhere. Whoever cannot
know whether that has happened must have ended what it runs by then.
"""

from enum import Enum, auto

from acode.clock import ticks, uptime
from acode.worker.messages import Tenure

LOOK_SECONDS = 1.0
"""How often a worker with an attempt looks at the time: a machine may have slept."""
CHECK_SECONDS = 2.0
"""After a sleep the daemon has so long to find out that the task is still ours."""
JUMP_SECONDS = 1.0


class Urgency(Enum):
    """How an attempt has to end whose time is nearly up."""

    SOON = auto()
    """It is asked to."""
    NOW = auto()
    """Nothing of it may go on."""


class TenureWatch:
    """The time that an attempt has, as far as its worker knows."""

    def __init__(self) -> None:
        self._tenure: Tenure | None = None
        self._told: Urgency | None = None
        self._looked = (ticks(), uptime())
        self._patient_until = 0.0

    def begin(self, tenure: Tenure | None) -> None:
        """An attempt begins; its order may have waited, and more have been heard meanwhile."""
        known = self._tenure
        later = tenure is not None and known is not None and known.until > tenure.until
        self.extend(known if later else tenure)

    def extend(self, tenure: Tenure | None) -> None:
        """There is more time, or nobody else who could take the task."""
        self._tenure = tenure
        self._told = None
        self._patient_until = 0.0
        self._looked = (ticks(), uptime())

    @property
    def deadline(self) -> float | None:
        """When to look again, on the monotonic clock."""
        return None if self._tenure is None else self._looked[0] + LOOK_SECONDS

    def due(self) -> Urgency | None:
        """Whether the attempt has to end, each time that it becomes more urgent."""
        self._look()
        if self._tenure is None or ticks() < self._patient_until:
            return None
        left = self._tenure.until - uptime()
        if left <= 0 and self._told is not Urgency.NOW:
            self._told = Urgency.NOW
        elif left <= self._tenure.grace and self._told is None:
            self._told = Urgency.SOON
        else:
            return None
        return self._told

    def _look(self) -> None:
        now, up = ticks(), uptime()
        slept = (up - self._looked[1]) - (now - self._looked[0])
        if slept > JUMP_SECONDS:
            self._patient_until = now + CHECK_SECONDS
        self._looked = (now, up)
