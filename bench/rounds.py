"""Fair measuring: contestants take turns, so that a noisy moment hits all of them alike."""

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import NamedTuple, TypeVar

Name = TypeVar("Name")


class Scale(NamedTuple):
    """How much to measure."""

    rounds: int
    tasks: int
    """Tasks that a queue is driven with."""
    committed: int
    """The same for those that wait for the disk at every step."""
    rows: int
    """Rows of the largest database."""


FULL = Scale(rounds=5, tasks=20_000, committed=1_000, rows=1_000_000)
QUICK = Scale(rounds=2, tasks=4_000, committed=200, rows=50_000)


def medians(contestants: Mapping[Name, Callable[[], float]], rounds: int) -> dict[Name, float]:
    """The median result of each, after `rounds` rounds in which each has one turn."""
    results: dict[Name, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, measure in contestants.items():
            results[name].append(measure())
    return {name: median(values) for name, values in results.items()}


def seconds(action: Callable[[], object]) -> float:
    """How long an action takes."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin
