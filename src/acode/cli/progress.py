"""How a run is told while it goes on: a bar and lines on a terminal, lines alone elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from acode.cli.render import Screen
from acode.human import clean, span
from acode.model.state import FINISHED, Status
from acode.model.task import Move, Task
from acode.views import duration_ms, label

BAR_WIDTH = 24
SHOWN_RUNNING = 8


class Standing(NamedTuple):
    """The run at a glance."""

    total: int
    done: int
    running: int
    failed: int
    ended_here: int
    """Those that have ended since this command began."""
    seconds: float
    note: str = ""

    @property
    def rate(self) -> float:
        """Tasks that end in a second."""
        return self.ended_here / self.seconds if self.seconds > 0 else 0.0

    @property
    def left_ms(self) -> int | None:
        """How long the rest takes if it goes on like this."""
        return round((self.total - self.done) / self.rate * 1000) if self.rate else None


def bar(standing: Standing) -> str:
    """One line: how far it is, what runs, what failed, how fast, and how long it will take."""
    filled = BAR_WIDTH * standing.done // standing.total
    parts = [
        f"{'━' * filled}{'─' * (BAR_WIDTH - filled)} {standing.done}/{standing.total} done",
        f"{standing.running} running",
        f"{standing.failed} failed",
        f"{standing.rate:.1f}/s",
    ]
    if standing.left_ms is not None and standing.done < standing.total:
        parts.append(f"{span(standing.left_ms)} left")
    if standing.note:
        parts.append(standing.note)
    return " · ".join(parts)


class Teller(Protocol):
    """Where a run is told."""

    def show(self, standing: Standing, running: list[Task]) -> None:
        """Show how far it is."""
        ...

    def line(self, text: str) -> None:
        """Tell something that stays."""
        ...


class Silent:
    """Nobody is looking."""

    def show(self, standing: Standing, running: list[Task]) -> None:
        """Nothing."""

    def line(self, text: str) -> None:
        """Nothing."""


class Plain(Silent):
    """Lines only, for pipes and logs of builds."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def line(self, text: str) -> None:
        """Print it at once."""
        self._screen.text(text)
        self._screen.flush()


@contextmanager
def teller(screen: Screen) -> Iterator[Teller]:
    """The way to tell a run here."""
    if screen.json or screen.quiet:
        yield Silent()
    elif screen.terminal:
        from acode.cli.pretty import live_lines

        with live_lines(colour=screen.colour) as lines:
            yield _Board(lines)
    else:
        yield Plain(screen)


class Lines(Protocol):
    """The end of a terminal: lines that stay, above lines that are replaced."""

    def replace(self, lines: list[str]) -> None:
        """Show other lines at the end."""
        ...

    def add(self, line: str) -> None:
        """Put one above them for good."""
        ...


class _Board:
    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def show(self, standing: Standing, running: list[Task]) -> None:
        """The bar, and below it what runs."""
        titles = [f"  ▸ {clean(label(task.spec))}" for task in running[:SHOWN_RUNNING]]
        if len(running) > SHOWN_RUNNING:
            titles.append(f"  … and {len(running) - SHOWN_RUNNING} more")
        self._lines.replace([bar(standing), *titles])

    def line(self, text: str) -> None:
        """Above the bar."""
        self._lines.add(clean(text))


def told(move: Move, task: Task, place: str) -> str | None:
    """What a move is worth telling: ends and further attempts."""
    title = label(task.spec)
    match move.became:
        case Status.COMPLETED:
            return f"✓ {place} {title}{_took(task)}"
        case Status.FAILED:
            return f"✗ {place} {title}: {_why(task)}{_took(task)}"
        case Status.CANCELLED:
            return f"✗ {place} {title}: cancelled"
        case Status.PENDING if move.was is Status.RUNNING:
            return f"↻ {title}: {move.reason}"
        case _:
            return None


def _why(task: Task) -> str:
    return task.error.message.partition("\n")[0] if task.error else "failed"


def _took(task: Task) -> str:
    took = duration_ms(task) if task.status in FINISHED else None
    return "" if took is None else f" ({span(took)})"
