"""The frame of every page: the way around, the look, and what is said when something is wrong."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from html import escape

from nicegui import ui

from acode.errors import AcodeError
from acode.gateway.desk import Desk
from acode.model.state import Status

PAGES = (
    ("/", "Pool"),
    ("/tasks", "Tasks"),
    ("/dead-letters", "Dead letters"),
    ("/events", "Events"),
)
ACTOR = "dashboard"
REFRESH_SECONDS = 1.0

LOGO = (
    '<svg class="logo" viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="8"'
    ' fill="#2b62d9"/><g fill="#fff"><rect x="7" y="8" width="18" height="4" rx="2"/>'
    '<rect x="7" y="14" width="12" height="4" rx="2" opacity=".8"/>'
    '<rect x="7" y="20" width="6" height="4" rx="2" opacity=".6"/></g></svg>'
)
_THEME = """
const wanted = localStorage.getItem('acode-theme');
if (wanted) Quasar.Dark.set(wanted === 'dark');
"""
_TOGGLE = """
Quasar.Dark.toggle();
localStorage.setItem('acode-theme', Quasar.Dark.isActive ? 'dark' : 'light');
"""
_KEYS = """<script>
document.addEventListener('keydown', event => {
  const typing = event.target.closest('input, textarea, [contenteditable]');
  if (event.key === '/' && !typing) {
    const search = document.querySelector('input[aria-label^="Search"]');
    if (search) { search.focus(); event.preventDefault(); }
  }
});
</script>"""


def html(content: str = "", *, tag: str = "div") -> ui.html:
    """HTML that `paint` has made."""
    return ui.html(content, sanitize=False, tag=tag)


@asynccontextmanager
async def page(desk: Desk, title: str, here: str) -> AsyncIterator[None]:
    """One page: its content goes inside."""
    ui.page_title(f"{title} · acode")
    ui.add_head_html('<link rel="stylesheet" href="/assets/dashboard.css">' + _KEYS)
    ui.colors(primary="#2b62d9", negative="#b3261e", positive="#17794a")
    html('<a class="skip" href="#content">Skip to the content</a>')
    with ui.element("header").classes("top"):
        name = escape(os.path.basename(desk.project.root) or "/")
        html(f'<a class="brand" href="/">{LOGO}acode <small>{name}</small></a>')
        nav = html(_links(here, 0), tag="nav").props('aria-label="Pages"')
        ui.button("Add a task", on_click=lambda: ui.navigate.to("/new")).props("unelevated")
        toggle = ui.button(icon="contrast", on_click=lambda: ui.run_javascript(_TOGGLE))
        toggle.props('flat round dense aria-label="Light or dark"')
    ui.run_javascript(_THEME)
    with ui.element("div").classes("content").props('id="content" tabindex="-1"'):
        yield

    async def count() -> None:
        # Every failed task is a dead letter, and counting is free.
        nav.set_content(_links(here, (await desk.glance.counts()).by_status[Status.FAILED]))

    await every(5.0, count)


def _links(here: str, letters: int) -> str:
    cells = []
    for path, name in PAGES:
        current = ' aria-current="page"' if path == here else ""
        more = f"<b>{letters:,}</b>" if letters and path == "/dead-letters" else ""
        cells.append(f'<a href="{path}"{current}>{name}{more}</a>')
    return "".join(cells)


async def every(seconds: float, look: Callable[[], Awaitable[None]]) -> None:
    """Look now, and again and again; trouble is shown once and goes away by itself."""
    trouble = html().classes("w-full")

    async def guarded() -> None:
        try:
            await look()
        except AcodeError as error:
            words = f"{error.code}: {error}. {error.hint}"
            trouble.set_content(f'<p class="note bad" role="alert">{escape(words)}</p>')
        else:
            trouble.set_content("")

    await guarded()
    ui.timer(seconds, guarded, immediate=False)


async def attempt(action: Awaitable[object], done: str) -> bool:
    """Do what somebody asked for and say how it went."""
    try:
        await action
    except AcodeError as error:
        ui.notify(f"{error} {error.hint}", type="negative", multi_line=True, close_button="Close")
        return False
    ui.notify(done, type="positive")
    return True


async def confirmed(question: str, yes: str) -> bool:
    """Ask before something is gone for good."""
    with ui.dialog() as dialog, ui.card():
        html(f"<h1>{escape(question)}</h1>")
        with ui.element("div").classes("tools"):
            ui.button("No", on_click=lambda: dialog.submit(False)).props("flat autofocus")
            ui.button(yes, color="negative", on_click=lambda: dialog.submit(True)).props(
                "unelevated"
            )
    answer = await dialog
    dialog.delete()
    return bool(answer)
