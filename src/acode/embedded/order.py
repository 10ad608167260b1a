"""One attempt in the hands of an embedded pool, and how it ends."""

from enum import Enum, auto

from acode.engine.roster import Slot
from acode.model.ending import Cancelled, Ending, Released, TimedOut
from acode.model.task import Lease
from acode.runner.context import Call


class Interruption(Enum):
    """Why an attempt has to end before its handler does."""

    TIMEOUT = auto()
    CANCEL = auto()
    RELEASE = auto()


class Order:
    """An attempt from the moment its lease arrives until its ending is passed on."""

    __slots__ = (
        "began",
        "call",
        "deadline",
        "heard",
        "lease",
        "over",
        "slot",
        "told",
        "turn",
        "why",
    )

    def __init__(self, slot: Slot, lease: Lease, call: Call, turn: int) -> None:
        self.slot = slot
        self.lease = lease
        self.call = call
        self.turn = turn
        """Its place among those of the same priority."""
        self.began = 0.0
        """On the monotonic clock; 0 while it waits for its turn."""
        self.deadline = 0.0
        self.heard = 0.0
        """When its handler last gave a sign of life."""
        self.told = False
        """That it is silent has been said."""
        self.why: Interruption | None = None
        self.over = False

    def begin(self, now: float) -> None:
        """Its handler starts now."""
        self.began = self.heard = now
        self.deadline = now + self.call.timeout_seconds

    def interrupted(self) -> Ending:
        """The ending of an attempt that was interrupted."""
        match self.why:
            case Interruption.TIMEOUT:
                return TimedOut(self.call.timeout_seconds)
            case Interruption.CANCEL:
                return Cancelled()
            case Interruption.RELEASE | None:
                return Released("the pool stopped before it was done")
