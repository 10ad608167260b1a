"""The table: what was measured, beside whom, and whether the goal was met."""

from collections.abc import Iterable
from typing import NamedTuple


class Line(NamedTuple):
    """One comparison."""

    case: str
    ours: str
    peer: str
    ratio: float | None = None
    goal: str = ""
    met: bool | None = None


HEADINGS = ("question", "ours", "beside", "ratio", "goal", "met")


def at_least(case: str, ours: float, peer: str, theirs: float, goal: float | None = None) -> Line:
    """Two rates: ours should be this many times theirs."""
    ratio = ours / theirs
    beside = f"{peer}: {theirs:,.0f}/s"
    if goal is None:
        return Line(case, f"{ours:,.0f}/s", beside, ratio)
    return Line(case, f"{ours:,.0f}/s", beside, ratio, f"≥ {goal:g}x", ratio >= goal)


def at_most(case: str, ours: float, peer: str, theirs: float, goal: float | None = None) -> Line:
    """Two durations in seconds: ours should be no more than this many times theirs."""
    ratio = ours / theirs
    beside = f"{peer}: {duration(theirs)}"
    if goal is None:
        return Line(case, duration(ours), beside, ratio)
    return Line(case, duration(ours), beside, ratio, f"≤ {goal:g}x", ratio <= goal)


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
    ratio = "" if line.ratio is None else f"{line.ratio:.2f}x"
    met = {True: "yes", False: "NO", None: ""}[line.met]
    return (line.case, line.ours, line.peer, ratio, line.goal, met)
