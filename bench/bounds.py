"""Requirements that are times or sizes: a test asserts none, so they are measured.

`make requirements` lists them beside those that tests prove.
"""

from collections.abc import Callable

from bench.report import Line, duration

BOUNDS: dict[str, tuple[str, float]] = {
    "027-NFR-001": ("a pool of one worker starts", 1.0),
    "027-NFR-002": ("the same pool stops", 10.0),
    "027-NFR-003": ("a task is claimed, out of 10,000", 0.050),
    "027-NFR-004": ("a worker answers a heartbeat", 0.010),
    "027a-NFR-001": ("a command runs after it was submitted", 0.5),
    "027a-NFR-002": ("a command that ignores SIGTERM is gone after it was cancelled", 15.0),
    "027a-NFR-003": ("a worktree of 5,000 files is there, without copy on write", 5.0),
    "027a-NFR-004": ("the same worktree is put away", 5.0),
    "027a-NFR-005": ("all processes of a pool of one worker", 100.0),
    "027b-NFR-001": ("a pool of one container starts", 10.0),
    "027b-NFR-004": ("one look at what a container uses", 0.1),
}
"""Row of docs/requirements.tsv: what is measured, and what it stays below, in seconds or MB."""


def within(row: str, took: float) -> Line:
    """A span beside the bound of its row."""
    return _line(row, took, duration)


def below(row: str, megabytes: float) -> Line:
    """A size beside the bound of its row."""
    return _line(row, megabytes, "{:.1f} MB".format)


def _line(row: str, measured: float, spell: Callable[[float], str]) -> Line:
    what, bound = BOUNDS[row]
    goal = f"< {spell(bound)}"
    return Line(f"{what} ({row})", spell(measured), "", None, goal, measured < bound)
