"""Fair measuring: contestants take turns, so that a noisy moment hits all of them alike."""

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import NamedTuple


class Scale(NamedTuple):
    """How much to measure."""

    rounds: int
    tasks: int
    """Tasks that a queue is driven with."""
    committed: int
    """The same for those that wait for the disk at every step."""
    rows: int
    """Rows of the largest database."""


FULL = Scale(rounds=7, tasks=20_000, committed=500, rows=1_000_000)
QUICK = Scale(rounds=2, tasks=4_000, committed=200, rows=50_000)


class Rounds:
    """What each contestant reached, round by round."""

    def __init__(self, turns: Mapping[str, Callable[[], float]], rounds: int) -> None:
        self._results: dict[str, list[float]] = {name: [] for name in turns}
        for _ in range(rounds):
            for name, turn in turns.items():
                self._results[name].append(turn())

    def median(self, name: str) -> float:
        """The middle one of a contestant's results."""
        return median(self._results[name])

    def least(self, name: str) -> float:
        """The smallest of a contestant's results."""
        return min(self._results[name])

    def most(self, name: str) -> float:
        """The largest of a contestant's results."""
        return max(self._results[name])

    def ratio(self, one: str, other: str) -> float:
        """The middle one of the ratios within each round: disk and machine change in between."""
        pairs = zip(self._results[one], self._results[other], strict=True)
        return median(first / second for first, second in pairs)


def seconds(action: Callable[[], object]) -> float:
    """How long an action takes."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin
