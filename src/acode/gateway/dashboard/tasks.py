"""All tasks: filter, search, sort, and page through however many there are."""

from typing import Any

from nicegui import ui

from acode.gateway.dashboard.frame import REFRESH_SECONDS, every, html, page
from acode.gateway.dashboard.paint import task_table
from acode.gateway.desk import Desk
from acode.model.priority import Priority
from acode.model.state import Status
from acode.store.base import Counts, Sort, TaskQuery

SIZE = 50
SORTS = {
    "newest": ("created", True),
    "oldest": ("created", False),
    "priority": ("priority", False),
    "status": ("status", False),
}


def register(desk: Desk) -> None:
    """Teach the dashboard this page."""

    @ui.page("/tasks")
    async def tasks_page(status: str = "", search: str = "") -> None:
        async with page(desk, "Tasks", "/tasks"):
            await TasksPage(desk, status, search).begin()


class TasksPage:
    """A window on the list."""

    def __init__(self, desk: Desk, status: str, search: str) -> None:
        self._desk = desk
        self._offset = 0
        with ui.element("div").classes("row-head"):
            self._head = html("<h1>Tasks</h1>")
        with ui.element("div").classes("tools"):
            self._filters(status, search)
        self._table = html().classes("card")
        with ui.element("div").classes("row-head"):
            self._where = html().props('aria-live="polite"')
            with ui.element("div").classes("tools"):
                self._back = ui.button("Previous", on_click=lambda: self._turn(-SIZE)).props(
                    "outline"
                )
                self._page = ui.number("Page", value=1, min=1, precision=0, on_change=self._jump)
                self._page.props('outlined dense debounce=400 aria-label="Page"').classes("short")
                self._next = ui.button("Next", on_click=lambda: self._turn(SIZE)).props("outline")

    async def begin(self) -> None:
        """Show how things are, and how they change."""
        await every(REFRESH_SECONDS, self._refresh)

    def _filters(self, status: str, search: str) -> None:
        known = status if status in list(Status) else "any"
        self._search = ui.input("Search", value=search, on_change=self._anew)
        self._search.props('outlined dense clearable debounce=250 aria-label="Search tasks"')
        self._status = self._choice("Status", ["any", *Status], known)
        self._priority = self._choice("Priority", ["any", *Priority], "any")
        self._sort = self._choice("Order", list(SORTS), "newest")

    def _choice(self, name: str, words: list[str], value: str) -> ui.select:
        options = {str(word): str(word) for word in words}
        choice = ui.select(options, label=name, value=value, on_change=self._anew)
        return choice.props(f'outlined dense options-dense aria-label="{name}"').style(
            "min-width: 8.5rem"
        )

    async def _anew(self, _event: Any) -> None:
        self._offset = 0
        await self._refresh()

    async def _turn(self, step: int) -> None:
        self._offset = max(0, self._offset + step)
        await self._refresh()

    async def _jump(self, event: Any) -> None:
        offset = (max(1, int(event.value or 1)) - 1) * SIZE
        if offset != self._offset:
            self._offset = offset
            await self._refresh()

    def _known(self, counts: Counts) -> int | None:
        """How many fit, where that can be told without looking at each."""
        if self._search.value or self._priority.value != "any":
            return None
        by = counts.by_status
        return sum(by.values()) if self._status.value == "any" else by[Status(self._status.value)]

    def _query(self) -> TaskQuery:
        by, reverse = SORTS[self._sort.value]
        return TaskQuery(
            statuses=() if self._status.value == "any" else (Status(self._status.value),),
            priority=None if self._priority.value == "any" else Priority(self._priority.value),
            text=self._search.value or None,
            sort=Sort(by=by, reverse=reverse),
            offset=self._offset,
            limit=SIZE + 1,
        )

    async def _refresh(self) -> None:
        found = await self._desk.find(self._query())
        more, shown = len(found) > SIZE, found[:SIZE]
        counts = await self._desk.glance.counts()
        everything = sum(counts.by_status.values())
        self._head.set_content(f"<h1>Tasks <small class='quiet'>{everything:,}</small></h1>")
        if shown:
            self._table.set_content(task_table(shown, self._desk.clock.now()))
            known = self._known(counts)
            words = f"{self._offset + 1:,} to {self._offset + len(shown):,}"
            words += "" if known is None else f" of {known:,}"
        else:
            text = "No task fits." if everything else "No tasks yet."
            self._table.set_content(f'<p class="empty">{text}</p>')
            words = ""
        self._where.set_content(f'<span class="quiet">{words}</span>')
        self._page.set_value(self._offset // SIZE + 1)
        self._back.set_enabled(self._offset > 0)
        self._next.set_enabled(more)
