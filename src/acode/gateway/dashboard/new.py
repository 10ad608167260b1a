"""Adding a task."""

from typing import Any

from nicegui import ui

from acode.errors import AcodeError
from acode.gateway.dashboard.frame import ACTOR, html, page
from acode.gateway.desk import Desk
from acode.gateway.tasks import submit
from acode.model.priority import Priority
from acode.spec import TYPES


def register(desk: Desk) -> None:
    """Teach the dashboard this page."""

    @ui.page("/new")
    async def new_page() -> None:
        async with page(desk, "Add a task", "/new"):
            NewPage(desk)


class NewPage:
    """The form."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        html("<h1>Add a task</h1>")
        with ui.element("div").classes("card"), ui.element("div").classes("form"):
            self._command = ui.textarea("Command").props(
                'outlined autogrow autofocus aria-label="Command"'
            )
            self._command.classes("wide")
            self._title = ui.input("Title, if it should have one").props("outlined")
            types = list(dict.fromkeys((*TYPES, *desk.settings.agents)))
            self._type = ui.select(types, label="Type", value="shell").props("outlined")
            self._priority = ui.select([str(p) for p in Priority], label="Priority", value="medium")
            self._priority.props("outlined")
            self._workstream = ui.input("Workstream").props("outlined")
            self._timeout = ui.number("Timeout in seconds", min=1).props("outlined")
            self._retries = ui.number("Retries", min=0, max=100, precision=0).props("outlined")
            self._after = ui.input("After these tasks (ids)").props("outlined").classes("wide")
            self._problem = html().props('role="alert"').classes("wide")
            ui.button("Add the task", on_click=self._submit).props("unelevated")

    async def _submit(self) -> None:
        try:
            added = await submit(self._desk, self._task(), ACTOR)
        except AcodeError as error:
            from html import escape

            lines = escape(str(error)).replace("\n", "<br>")
            self._problem.set_content(f'<p class="note bad">{lines}<br>{escape(error.hint)}</p>')
            return
        ui.navigate.to(f"/tasks/{added.id}")

    def _task(self) -> dict[str, Any]:
        retries = self._retries.value
        given = {
            "command": self._command.value,
            "title": self._title.value,
            "type": self._type.value,
            "priority": self._priority.value,
            "workstreamId": self._workstream.value,
            "timeoutSeconds": self._timeout.value,
            "retryLimit": None if retries is None else int(retries),
            "dependencies": (self._after.value or "").replace(",", " ").split() or None,
        }
        return {name: value for name, value in given.items() if value not in (None, "")}
