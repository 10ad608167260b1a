"""The table: what was measured, beside whom, and whether the goal was met."""

from collections.abc import Iterable
from typing import NamedTuple

from bench.rounds import Rounds


class Line(NamedTuple):
    """One comparison."""

    case: str
    ours: str
    beside: str
    ratio: float | None = None
    goal: str = ""
    met: bool | None = None


class Pair(NamedTuple):
    """Two contestants of the same rounds."""

    rounds: Rounds
    ours: str
    theirs: str


HEADINGS = ("question", "ours", "beside", "ratio", "goal", "met")


def at_least(case: str, pair: Pair, goal: float | None = None) -> Line:
    """Two rates: ours should be this many times theirs."""
    rounds, ours, theirs = pair
    ratio = rounds.ratio(ours, theirs)
    beside = f"{theirs}: {rounds.median(theirs):,.0f}/s"
    line = Line(case, f"{rounds.median(ours):,.0f}/s", beside, ratio)
    return line if goal is None else line._replace(goal=f"≥ {goal:g}x", met=ratio >= goal)


def at_most(case: str, pair: Pair, goal: float | None = None) -> Line:
    """Two durations in seconds: ours should be no more than this many times theirs."""
    rounds, ours, theirs = pair
    ratio = rounds.ratio(ours, theirs)
    beside = f"{theirs}: {duration(rounds.median(theirs))}"
    line = Line(case, duration(rounds.median(ours)), beside, ratio)
    return line if goal is None else line._replace(goal=f"≤ {goal:g}x", met=ratio <= goal)


def duration(seconds: float) -> str:
    """A span in the unit that suits it."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def table(lines: Iterable[Line]) -> str:
    """The lines as a Markdown table whose columns stand in line."""
    rows = [HEADINGS, *(_cells(line) for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    rows.insert(1, tuple("-" * width for width in widths))
    return "\n".join(
        f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |"
        for row in rows
    )


def _cells(line: Line) -> tuple[str, ...]:
    ratio = "" if line.ratio is None else f"{line.ratio:.{2 if line.ratio >= 0.1 else 3}f}x"
    met = {True: "yes", False: "NO", None: ""}[line.met]
    return (line.case, line.ours, line.beside, ratio, line.goal, met)
