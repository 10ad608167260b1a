"""One task: what it is, what became of it, what it printed, what it changed."""

import asyncio
import os
from html import escape
from urllib.parse import quote

from nicegui import ui

from acode import peers
from acode.errors import AcodeError
from acode.gateway.dashboard.frame import ACTOR, REFRESH_SECONDS, attempt, every, html, page
from acode.gateway.dashboard.paint import badge, diff, diff_size, facts, log_line, moment, timeline
from acode.gateway.desk import Desk
from acode.gateway.elsewhere import holder, lines_elsewhere
from acode.gateway.files import PATCH, artifact_names
from acode.gateway.tasks import explained
from acode.human import span
from acode.model.host import Host
from acode.model.state import FINISHED, Status
from acode.model.task import Record
from acode.observe.logparse import Record as Line
from acode.observe.logread import Tail
from acode.views import View, label, task_view

MAX_LINES = 5_000
MAX_PATCH_BYTES = 1 << 20
_HOLD = """event => {
  const e = event.target;
  e.dataset.held = e.scrollHeight - e.scrollTop - e.clientHeight > 40 ? 'yes' : '';
}"""


def register(desk: Desk) -> None:
    """Teach the dashboard this page."""

    @ui.page("/tasks/{task_id}")
    async def task_page(task_id: str) -> None:
        async with page(desk, "Task", "/tasks"):
            try:
                found = await desk.task(task_id)
            except AcodeError as error:
                words = f'<h1>No such task</h1><p class="empty">{escape(str(error))}</p>'
                html(words).classes("card")
                return
            await TaskPage(desk, found).begin()


class TaskPage:
    """Everything that moves on this page."""

    def __init__(self, desk: Desk, task_id: str) -> None:
        self._desk, self._id = desk, task_id
        self._lines: list[Line] = []
        self._shown = ""
        self._tail = Tail(desk.project.task_log(task_id))
        ui.context.client.on_delete(self._tail.close)
        with ui.element("div").classes("row-head"):
            self._head = html()
            with ui.element("div").classes("tools"):
                self._cancel = ui.button("Cancel", on_click=self._on_cancel)
                self._cancel.props("outline color=negative")
                self._retry = ui.button("Try again", on_click=self._on_retry).props("outline")
        self._why = html().props('aria-live="polite"').classes("card")
        with ui.element("div").classes("two"):
            self._facts = html().classes("card")
            self._history = html().classes("card")
        self._log_card()
        self._changes = html().classes("w-full stack")

    async def begin(self) -> None:
        """Show how things are, and how they change."""
        await every(REFRESH_SECONDS, self._refresh)

    def _log_card(self) -> None:
        with ui.element("section").classes("card"):
            with ui.element("div").classes("row-head"):
                whole = f'<a class="quiet" href="{_address(self._id)}/logs">all of it as JSON</a>'
                html(f"<h2>Output {whole}</h2>")
                self._search = ui.input("Search", on_change=self._redraw)
                self._search.props(
                    'outlined dense clearable debounce=200 aria-label="Search the output"'
                )
            self._screen = ui.element("div").classes("terminal")
            self._screen.props('role="log" tabindex="0" aria-label="Output of the task"')
            self._screen.on("scroll", js_handler=_HOLD)

    async def _on_cancel(self) -> None:
        await attempt(
            self._desk.cancel(self._id, force=False, actor=ACTOR), "The task is asked to end"
        )
        await self._refresh()

    async def _on_retry(self) -> None:
        await attempt(self._desk.retry(self._id, actor=ACTOR), "The task is queued again")
        await self._refresh()

    async def _refresh(self) -> None:
        record = await self._desk.store.record(self._id)
        view, now = task_view(record, self._desk.settings.tasks), self._desk.clock.now()
        title = escape(label(record.task.spec)[:300])
        self._head.set_content(f"<h1>{title} {badge(record.task.status)}</h1>")
        finished = record.task.status in FINISHED
        self._cancel.set_visibility(not finished)
        self._retry.set_visibility(record.task.status in (Status.FAILED, Status.CANCELLED))
        self._why.set_content(await self._explain(record))
        self._facts.set_content("<h2>Facts</h2>" + facts(_facts(view, now)))
        self._history.set_content("<h2>History</h2>" + timeline(view, now))
        await self._read_log(finished)
        self._changes.set_content(await self._results(view))

    async def _explain(self, record: Record) -> str:
        items = "".join(f"<li>{escape(text)}</li>" for text in await explained(self._desk, record))
        return f'<h2>Why</h2><ul class="plain">{items}</ul>'

    async def _read_log(self, finished: bool) -> None:
        if (lines := await lines_elsewhere(self._desk, self._id)) is not None:
            self._show_all(lines)
            return
        new = await asyncio.to_thread(lambda: list(self._tail.poll(64)))
        if finished and not new:
            new = self._tail.finish()
        if not new and (self._lines or self._shown):
            return
        self._lines = (self._lines + new)[-MAX_LINES:]
        if self._shown == "lines" and not self._search.value:
            self._append(new)
        else:
            self._redraw()

    def _show_all(self, lines: list[Line]) -> None:
        if len(lines) != len(self._lines) or not self._shown:
            self._lines = lines[-MAX_LINES:]
            self._redraw()

    def _append(self, lines: list[Line]) -> None:
        with self._screen:
            html("".join(log_line(line, "") for line in lines))
        self._to_the_end()

    def _to_the_end(self) -> None:
        """Show the newest lines, unless somebody reads older ones."""
        script = f"const e = getElement({self._screen.id}).$el ?? getElement({self._screen.id});"
        ui.run_javascript(script + "if (!e.dataset.held) e.scrollTop = e.scrollHeight;")

    def _redraw(self) -> None:
        search = (self._search.value or "").lower()
        lines = [line for line in self._lines if search in line.text.lower()]
        self._screen.clear()
        self._shown = "lines" if lines else "nothing"
        if lines:
            with self._screen:
                html("".join(log_line(line, search) for line in lines))
            if not search:
                self._to_the_end()
            return
        words = "No line fits." if self._lines else "Nothing was printed yet."
        with self._screen:
            html(f'<div class="sys">{words}</div>')

    async def _results(self, view: View) -> str:
        try:
            host = await holder(self._desk, self._id)
            found, patch = await asyncio.to_thread(self._left, host)
        except AcodeError:
            return ""  # the output says why
        return self._drawn(view, [name for name in found if name != PATCH], patch)

    def _left(self, host: Host | None) -> tuple[list[str], str]:
        """The files that the task left, here or there, and what it changed."""
        if host is None:
            folder = self._desk.project.artifacts_dir(self._id)
            return artifact_names(folder), _patch(os.path.join(folder, PATCH))
        names = peers.artifact_names(host, self._id)
        text = peers.patch(host, self._id)[:MAX_PATCH_BYTES] if PATCH in names else b""
        return names, text.decode("utf-8", "replace")

    def _drawn(self, view: View, names: list[str], patch: str) -> str:
        here, out = _address(self._id), []
        if patch:
            branch = f" on branch <code>{escape(view['branch'])}</code>" if view["branch"] else ""
            link = f'<p>{diff_size(patch)}{branch} · <a href="{here}/patch">download</a></p>'
            out.append(f'<section class="card"><h2>Changes</h2>{link}{diff(patch)}</section>')
        if names:
            links = (f'<a href="{here}/artifacts/{quote(n)}">{escape(n)}</a>' for n in names[:500])
            rows = "".join(f"<li>{link}</li>" for link in links)
            rows = f'<h2>Artifacts</h2><ul class="plain">{rows}</ul>'
            out.append(f'<section class="card">{rows}</section>')
        return "".join(out)


def _address(task_id: str) -> str:
    return f"/api/workers/tasks/{task_id}"


def _patch(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(MAX_PATCH_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _facts(view: View, now: int) -> dict[str, str | None]:
    error, took = view["error"], view["durationMs"]
    command = " ".join([view["command"], *view["args"]])
    return {
        "Id": f"<code>{view['id']}</code>",
        "Command": f"<code>{escape(command[:2000])}</code>",
        "Type": escape(view["type"]),
        "Priority": escape(view["priority"]),
        "Workstream": escape(view["workstreamId"] or ""),
        "Attempts": f"{view['attemptCount']} (up to {view['retryLimit']} retries)",
        "Created": moment(view["createdAt"], now),
        "Started": view["startedAt"] and moment(view["startedAt"], now),
        "Ended": view["completedAt"] and moment(view["completedAt"], now),
        "Took": None if took is None else span(took),
        "Worker": view["workerId"] and f"<code>worker-{view['workerId']}</code>",
        "Host": view["host"] and escape(view["host"]),
        "Exit code": None if view["exitCode"] is None else str(view["exitCode"]),
        "Error": error and escape(f"{error['code']}: {error['message']}"),
        "Hint": error and escape(error["hint"]),
        "After": " ".join(f'<a href="/tasks/{each}">{each}</a>' for each in view["dependencies"]),
        "Metadata": escape(", ".join(f"{key}={value}" for key, value in view["metadata"].items())),
    }
