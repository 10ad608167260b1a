"""What happens, as it happens."""

from collections import deque
from html import escape
from typing import Any

import msgspec
from nicegui import ui

from acode.gateway.dashboard.frame import html, page
from acode.gateway.dashboard.paint import tone
from acode.gateway.desk import Desk
from acode.gateway.follow import Batch
from acode.observe.feed import SPAN

KEPT = 300
PAST_MOVES = 100
_NAMES = ("taskId", "task", "workerId", "status", "reason", "message", "direction", "count")


def register(desk: Desk) -> None:
    """Teach the dashboard this page."""

    @ui.page("/events")
    async def events_page() -> None:
        async with page(desk, "Events", "/events"):
            await EventsPage(desk).begin()


class EventsPage:
    """The newest events, the newest first."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._events: deque[Any] = deque(maxlen=KEPT)
        self._is_stale = True
        with ui.element("div").classes("row-head"):
            html("<h1>Events</h1>")
            with ui.element("div").classes("tools"):
                self._tools()
        self._list = html().classes("card").props('role="log" aria-label="Events"')

    def _tools(self) -> None:
        self._live = ui.checkbox("Live", value=True, on_change=self._mark)
        self._only = ui.input("Search", on_change=self._mark)
        self._only.props('outlined dense clearable debounce=200 aria-label="Search events"')

    async def begin(self) -> None:
        """Show the last ones, then all that comes."""
        follower = self._desk.follower
        last = await follower.join(self._hear)
        ui.context.client.on_delete(lambda: follower.leave(self._hear))
        async for batch in follower.replay(max(0, last - PAST_MOVES * SPAN), last):
            self._hear(batch)
        self._show()
        ui.timer(0.5, lambda: self._show() if self._live.value else None)

    def _hear(self, batch: Batch) -> None:
        self._events.extend(msgspec.json.decode(text) for _, text in batch[-KEPT:])
        self._is_stale = True

    def _mark(self) -> None:
        self._is_stale = True
        self._show()

    def _show(self) -> None:
        if not self._is_stale:
            return
        self._is_stale = False
        wanted = (self._only.value or "").lower()
        found = [_row(event) for event in sorted(self._events, key=_seq, reverse=True)]
        rows = [row for row in found if wanted in row.lower()]
        words = "No event fits." if found else "Nothing has happened yet."
        shown = (
            f'<ul class="feed">{"".join(rows)}</ul>' if rows else f'<p class="empty">{words}</p>'
        )
        self._list.set_content(shown)


def _seq(event: Any) -> int:
    return int(event["seq"])


def _row(event: Any) -> str:
    payload = event["payload"]
    words = [_word(name, payload[name]) for name in _NAMES if payload.get(name) not in (None, "")]
    time = event["timestamp"][11:23]
    type_: str = event["type"]
    kind = f'<b class="{tone(type_.rpartition(".")[2])}">{escape(type_)}</b>'
    return f"<li><time>{time}</time>{kind}<span>{' · '.join(words)}</span></li>"


def _word(name: str, value: Any) -> str:
    if name in ("taskId", "task"):
        return f'<a href="/tasks/{escape(value)}"><code>{escape(value)}</code></a>'
    return (
        f"<code>worker …{escape(value[-8:])}</code>" if name == "workerId" else escape(str(value))
    )
