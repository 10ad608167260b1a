"""How things stood before the daemon was started, made of the moves that the store has kept."""

from collections import Counter
from typing import Any

from acode.clock import iso
from acode.model.state import Status
from acode.model.task import Move


class Past:
    """Hears moves in any order and works its way back from how things stand at the end."""

    def __init__(self, now: int, step_ms: int, steps: int) -> None:
        self._now = now
        self._step = step_ms
        self._steps = steps
        self._changes: dict[int, Counter[Status]] = {}
        """By how many steps ago."""

    def hear(self, move: Move) -> None:
        """One move, if it is young enough."""
        ago = max(0, self._now - move.at) // self._step
        if ago < self._steps:
            change = self._changes.setdefault(ago, Counter())
            change[move.became] += 1
            if move.was is not None:
                change[move.was] -= 1

    def samples(self, pending: int, running: int) -> list[dict[str, Any]]:
        """The samples that a daemon would have taken, from before the first move on, in order.

        What was completed is counted from the end back, so that later counts can go on from 0.
        """
        level = Counter({Status.PENDING: pending, Status.RUNNING: running})
        found = []
        for ago in range(max(self._changes) + 2 if self._changes else 0):
            found.append(sample(self._now - ago * self._step, level))
            level.subtract(self._changes.get(ago, {}))
        return found[::-1]


def sample(at: int, level: Counter[Status]) -> dict[str, Any]:
    """How things stand at a moment."""
    return {
        "at": iso(at),
        "pending": level[Status.PENDING],
        "running": level[Status.RUNNING],
        "completed": level[Status.COMPLETED],
        "failed": level[Status.FAILED],
    }
