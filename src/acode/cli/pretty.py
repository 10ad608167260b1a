"""Tables and spinners for terminals. The only module that imports rich."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from acode.cli.render import Column, Say

COLOURS = {
    "pending": "cyan",
    "blocked": "yellow",
    "running": "blue",
    "completed": "green",
    "failed": "red",
    "cancelled": "bright_black",
    "starting": "cyan",
    "idle": "green",
    "busy": "blue",
    "error": "yellow",
    "crashed": "red",
    "stopping": "bright_black",
    "high": "bold",
    "background": "bright_black",
}

SIGNS = {"✓": "green", "✗": "red", "↻": "yellow"}


def console(*, colour: bool, stderr: bool = False) -> Console:
    """A console that takes every text literally."""
    return Console(no_color=not colour, stderr=stderr, markup=False, highlight=False, emoji=False)


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Table:
    """A table whose last column gives way where the terminal is too narrow."""
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        # Rich takes room from columns that may wrap; the cells themselves never do.
        grid.add_column(column.name, no_wrap=column is not columns[-1], overflow="ellipsis")
    for row in rows:
        grid.add_row(*[_cell(column, text) for column, text in zip(columns, row, strict=True)])
    return grid


def _cell(column: Column, text: str) -> Text:
    style = COLOURS.get(text, "") if column.coloured else ""
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, colour: bool) -> None:
    """Print a table once."""
    console(colour=colour).print(table(columns, rows))


@contextmanager
def live_table(
    columns: Sequence[Column], *, colour: bool
) -> Iterator[Callable[[Sequence[Sequence[str]]], None]]:
    """A table on the terminal whose rows can be replaced."""
    with Live(console=console(colour=colour), auto_refresh=False, screen=False) as live:
        yield lambda rows: live.update(table(columns, rows), refresh=True)


@contextmanager
def live_text(*, colour: bool) -> Iterator[Callable[[str], None]]:
    """A text on the terminal that can be replaced."""
    with Live(console=console(colour=colour), auto_refresh=False, screen=False) as live:
        yield lambda text: live.update(Text(text), refresh=True)


class LiveLines:
    """Lines at the end of the terminal that are replaced, and others above them that stay."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def replace(self, lines: list[str]) -> None:
        """Show other lines at the end."""
        rows = [Text(line, no_wrap=True, overflow="ellipsis") for line in lines]
        self._live.update(Group(*rows), refresh=True)

    def add(self, line: str) -> None:
        """Put one above them for good."""
        self._live.console.print(Text(line, style=SIGNS.get(line[:1], "")))


@contextmanager
def live_lines(*, colour: bool) -> Iterator[LiveLines]:
    """The end of the terminal for as long as something goes on; it is left clean."""
    live = Live(console=console(colour=colour), auto_refresh=False, transient=True)
    with live:
        yield LiveLines(live)


@contextmanager
def spinner(text: str, *, colour: bool) -> Iterator[Say]:
    """Something that turns while work goes on."""
    with console(colour=colour, stderr=True).status(Text(text)) as status:
        yield lambda said: status.update(Text(said))
