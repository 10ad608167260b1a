"""`acode dashboard`: the pool in a terminal, full or compact."""

import os
import re
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import DataTable, Footer, Input, Static

from acode.clock import SystemClock, iso
from acode.errors import AcodeError
from acode.human import ago, size, span
from acode.model.state import Status
from acode.model.task import Task
from acode.tui.facts import Facts, Source
from acode.tui.screens import help_screen, task_screen
from acode.views import View, label

REFRESH_SECONDS = 1.0
TONES = {
    "completed": "green", "idle": "green", "running": "cyan", "busy": "cyan", "failed": "red",
    "crashed": "red", "error": "red", "blocked": "yellow", "starting": "yellow", "pending": "",
}  # fmt: skip

CSS = """
Screen { layout: vertical }
#head { height: auto; padding: 0 1; background: $panel }
#workers { height: auto; max-height: 40%; border: round $primary-darken-2; border-title-color: $text-muted }
#tasks { height: 1fr; border: round $primary-darken-2; border-title-color: $text-muted }
.compact #workers { display: none }
.compact #tasks, .compact #workers { border: none }
DataTable:focus { border: round $accent }
#filter { display: none; dock: bottom; height: 3 }
#filter.shown { display: block }
#sheet { width: 90%; max-width: 110; height: 80%; border: round $accent; background: $surface; padding: 1 2 }
ModalScreen { align: center middle }
"""  # noqa: E501


class Dashboard(App[None]):
    """Looks once a second; every key does one thing."""

    CSS = CSS
    TITLE = "acode"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "step(1)", show=False),
        Binding("k", "step(-1)", show=False),
        Binding("g", "edge(0)", show=False),
        Binding("G", "edge(1)", show=False),
        Binding("slash", "filter", "filter"),
        Binding("escape", "all", show=False),
        Binding("c", "cancel", "cancel"),
        Binding("r", "retry", "try again"),
        Binding("f", "status", "status"),
        Binding("p", "pause", "pause"),
        Binding("plus,equals_sign", "scale(1)", show=False),
        Binding("minus", "scale(-1)", show=False),
        Binding("m", "compact", "compact"),
        Binding("s", "snapshot", "snapshot"),
        Binding("question_mark", "help", "keys"),
        Binding("q", "quit", "leave"),
    ]

    def __init__(self, source: Source, *, compact: bool = False, folder: str = ".") -> None:
        super().__init__()
        self._source = source
        self._is_compact = compact
        self._folder = folder
        self._text = ""
        self._status: Status | None = None

    def compose(self) -> ComposeResult:
        """A head, the workers, the tasks."""
        with Vertical():
            yield Static(id="head")
            yield _table("workers", ("worker", "status", "cpu", "memory", "done", "failed", "task"))
            yield _table("tasks", ("id", "status", "priority", "took", "created", "task"))
        yield Input(placeholder="show only tasks with…", id="filter")
        yield Footer()

    async def on_mount(self) -> None:
        """Look, and go on looking."""
        self.set_class(self._is_compact, "compact")
        self.query_one("#tasks").focus()
        await self.refresh_facts()
        self.set_interval(REFRESH_SECONDS, self.refresh_facts)

    async def on_unmount(self) -> None:
        """Let go of the store."""
        await self._source.close()

    async def refresh_facts(self) -> None:
        """One look."""
        try:
            facts = await self._source.look(self._text, self._status)
        except AcodeError as error:
            self.query_one("#head", Static).update(Text(f"{error.code}: {error}", style="red"))
            return
        self.query_one("#head", Static).update(_head(facts))
        several = len(facts.pool["hosts"]) > 1
        self._fill("#workers", [_worker(facts, each, several) for each in facts.pool["workers"]])
        self._fill("#tasks", [_task(facts, each) for each in range(len(facts.tasks))])
        fits = f" that fit {self._text!r}" if self._text else ""
        which = "newest" if self._status is None else f"newest {self._status}"
        self.query_one("#tasks").border_title = f"{which} tasks{fits}"

    def _fill(self, name: str, rows: list[tuple[str, list[str | Text]]]) -> None:
        """Show rows and leave the cursor where it was."""
        table = self.query_one(name, DataTable)
        chosen, top = self._chosen(table), table.scroll_y
        table.clear()
        for key, cells in rows:
            table.add_row(*cells, key=key)
        keys = [key for key, _ in rows]
        if chosen in keys:
            table.move_cursor(row=keys.index(chosen), animate=False, scroll=False)
        table.scroll_to(y=top, animate=False)

    def _chosen(self, table: "DataTable[str | Text]") -> str:
        if not table.row_count:
            return ""
        return str(table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value)

    def _task_id(self) -> str:
        return self._chosen(self.query_one("#tasks", DataTable))

    def action_step(self, step: int) -> None:
        """Vim's way down and up."""
        if isinstance(self.focused, DataTable):
            row = self.focused.cursor_row + step
            self.focused.move_cursor(row=max(0, min(row, self.focused.row_count - 1)))

    def action_edge(self, last: int) -> None:
        """Vim's way to the first or the last row."""
        if isinstance(self.focused, DataTable):
            self.focused.move_cursor(row=(self.focused.row_count - 1) if last else 0)

    def action_filter(self) -> None:
        """Ask what to look for."""
        box = self.query_one("#filter", Input)
        box.add_class("shown")
        box.focus()

    async def on_input_changed(self, event: Input.Changed) -> None:
        """Look for it while it is typed."""
        self._text = event.value.strip()
        await self.refresh_facts()

    def on_input_submitted(self) -> None:
        """Back to the tasks that were found."""
        self.query_one("#filter").remove_class("shown")
        self.query_one("#tasks").focus()

    def action_all(self) -> None:
        """Show all tasks again."""
        self._status = None
        self.query_one("#filter", Input).value = ""
        self.on_input_submitted()

    async def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Show the task of the row."""
        if event.data_table.id == "tasks":
            self.push_screen(task_screen(*await self._source.task(str(event.row_key.value))))

    async def action_cancel(self) -> None:
        """Cancel the chosen task."""
        if task_id := self._task_id():
            await self._try(self._source.cancel(task_id), "asked to end")

    async def action_retry(self) -> None:
        """Queue the chosen task again."""
        if task_id := self._task_id():
            await self._try(self._source.retry(task_id), "queued again")

    async def _try(self, action: object, done: str) -> None:
        try:
            await action  # type: ignore[misc]
        except AcodeError as error:
            self.notify(str(error), severity="error")
        else:
            self.notify(f"the task is {done}")
        await self.refresh_facts()

    async def action_status(self) -> None:
        """Show the tasks of the next status, and all of them after the last."""
        known = [None, *Status]
        self._status = known[(known.index(self._status) + 1) % len(known)]
        await self.refresh_facts()

    async def action_scale(self, step: int) -> None:
        """A worker more, or fewer."""
        try:
            self.notify(await self._source.scale(step))
        except AcodeError as error:
            self.notify(str(error), severity="error")
        await self.refresh_facts()

    async def action_pause(self) -> None:
        """Pause the queue, or let it go on."""
        paused = await self._source.pause()
        self.notify("the queue is paused" if paused else "the queue goes on")
        await self.refresh_facts()

    def action_compact(self) -> None:
        """Full or compact."""
        self._is_compact = not self._is_compact
        self.set_class(self._is_compact, "compact")
        self.query_one("#tasks").focus()

    def action_snapshot(self) -> None:
        """Save what is on the screen as a picture."""
        moment = (iso(SystemClock().now()) or "").replace(":", "-")
        path = os.path.join(self._folder, f"acode-{moment}.svg")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.picture())
        self.notify(f"saved to {os.path.relpath(path)}")

    def picture(self) -> str:
        """The screen as SVG, without the fonts that it would fetch from elsewhere."""
        return re.sub(r"@font-face \{.*?\}", "", self.export_screenshot(), flags=re.DOTALL)

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(help_screen())


def _table(name: str, columns: tuple[str, ...]) -> "DataTable[str | Text]":
    table: DataTable[str | Text] = DataTable(id=name, cursor_type="row", zebra_stripes=False)
    table.add_columns(*columns)
    table.border_title = name
    return table


def _coloured(word: str) -> Text:
    return Text(word, style=TONES.get(word, ""))


def _head(facts: Facts) -> Text:
    pool, counts = facts.pool, facts.counts
    text = Text()
    if not pool["isRunning"]:
        text.append("no pool runs  ", style="bold yellow")
    if counts.paused:
        text.append("paused  ", style="bold yellow")
    for word, value in (
        ("workers", f"{pool['activeCount']} ({pool['busyCount']} busy)"),
        ("waiting", f"{counts.waiting:,}"),
        ("running", f"{counts.by_status[Status.RUNNING]:,}"),
        ("completed", f"{counts.by_status[Status.COMPLETED]:,}"),
        ("failed", f"{counts.by_status[Status.FAILED]:,}"),
        ("cpu", f"{pool['resources']['cpuPercent']:.0f} %"),
        ("memory", size(round(pool["resources"]["memoryBytes"]))),
    ):
        text.append(f"{word} ", style="dim")
        text.append(f"{value}   ", style="bold")
    if pool["backpressure"]:
        text.append(f"\n{pool['backpressure']}", style="yellow")
    for each in pool["circuits"]:
        where = f" of {each['workstreamId']}" if each["workstreamId"] else ""
        text.append(f"\ncircuit {each['type']}{where} is {each['status']}", style="yellow")
    return text


def _worker(facts: Facts, worker: View, several: bool) -> tuple[str, list[str | Text]]:
    used, id_ = worker["resources"], worker["currentTaskId"]
    task = facts.running.get(id_ or "")
    where = f" on {worker['host']}" if several else ""
    return worker["id"], [
        f"…{worker['id'][-8:]}{where}",
        _coloured(worker["status"]),
        f"{used['cpuPercent']:.0f} %",
        size(round(used["memoryBytes"])),
        f"{worker['tasksCompleted']:,}",
        f"{worker['tasksFailed']:,}",
        Text(_title(task) if task else id_ or "-"),
    ]


def _task(facts: Facts, place: int) -> tuple[str, list[str | Text]]:
    task = facts.tasks[place]
    took = "-"
    if task.started_at is not None:
        took = span(max(0, (task.completed_at or facts.now) - task.started_at))
    return task.id, [
        f"…{task.id[-8:]}",
        _coloured(task.status.value),
        task.spec.priority.value,
        took,
        ago(task.created_at, facts.now),
        Text(_title(task)),
    ]


def _title(task: Task) -> str:
    return label(task.spec).replace("\n", " ")[:200]
