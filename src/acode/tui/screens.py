"""Screens that lie over the dashboard: one task, and the keys."""

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from acode.clock import iso
from acode.model.task import Record
from acode.views import label

KEYS = (
    ("j k ↓ ↑", "the next or the previous one"),
    ("g G", "the first or the last one"),
    ("tab", "from the workers to the tasks and back"),
    ("enter", "show the task: why it is where it is, and what it printed"),
    ("/", "show only tasks that fit; esc shows all"),
    ("f", "show only running tasks, failed ones and so on; esc shows all"),
    ("c r", "cancel the task, or try it again"),
    ("+ -", "a worker more, or fewer"),
    ("p", "pause the queue, or let it go on"),
    ("m", "full or compact"),
    ("s", "save a snapshot of the screen"),
    ("?", "these keys"),
    ("q", "leave"),
)


class Closable(ModalScreen[None]):
    """Goes away by itself at the usual keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "dismiss", "close", show=False),
        Binding("j,down", "scroll(1)", show=False),
        Binding("k,up", "scroll(-1)", show=False),
    ]

    def __init__(self, content: Text, title: str) -> None:
        super().__init__()
        self._content = content
        self._title = title

    def compose(self) -> ComposeResult:
        """A box with text."""
        with VerticalScroll(id="sheet") as box:
            box.border_title = self._title
            yield Static(self._content)

    def on_mount(self) -> None:
        """Arrows scroll at once."""
        self.query_one("#sheet").focus()

    def action_scroll(self, lines: int) -> None:
        """Move the text."""
        self.query_one("#sheet").scroll_relative(y=lines, animate=False)


def help_screen() -> Closable:
    """The keys."""
    text = Text()
    for keys, words in KEYS:
        text.append(f"{keys:<10}", style="bold")
        text.append(f"{words}\n")
    return Closable(text, "Keys")


def task_screen(record: Record, reasons: list[str], log: list[str]) -> Closable:
    """One task."""
    task, text = record.task, Text()
    text.append(f"{label(task.spec)}\n", style="bold")
    text.append(f"{task.id}  {task.status}\n\n")
    for reason in reasons:
        text.append(f"{reason}\n")
    text.append("\nHistory\n", style="bold")
    for move in record.history:
        text.append(f"{iso(move.at)}  {move.became:<10} {move.reason} ({move.actor})\n")
    text.append("\nOutput\n", style="bold")
    text.append_text(Text.from_ansi("\n".join(log) or "nothing was printed"))
    return Closable(text, "Task")
