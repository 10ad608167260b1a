"""The pool at a glance."""

from html import escape
from itertools import pairwise
from typing import Any

from nicegui import ui

from acode.gateway.dashboard.chart import Series, chart
from acode.gateway.dashboard.frame import (
    ACTOR,
    REFRESH_SECONDS,
    attempt,
    confirmed,
    every,
    html,
    page,
)
from acode.gateway.dashboard.paint import Tile, badge, task_table, tiles, worker_cards
from acode.gateway.desk import Desk
from acode.gateway.workers import health_view
from acode.human import number, size, span
from acode.model.state import Status
from acode.store.base import Counts, Sort, TaskQuery
from acode.views import View

NEWEST = 8


def register(desk: Desk) -> None:
    """Teach the dashboard this page."""

    @ui.page("/")
    async def pool_page() -> None:
        async with page(desk, "Pool", "/"):
            await PoolPage(desk).begin()


class PoolPage:
    """Everything that moves on this page."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        with ui.element("div").classes("row-head"):
            self._head = html("<h1>Worker pool</h1>")
            self._controls()
        self._notes = html().props('aria-live="polite"').classes("w-full")
        self._tiles = html().classes("w-full")
        with ui.element("div").classes("two"):
            self._depth = html().classes("card")
            self._speed = html().classes("card")
        self._workers = html().classes("card")
        self._tasks = html().classes("card")

    async def begin(self) -> None:
        """Show how things are, and how they change."""
        await every(REFRESH_SECONDS, self._refresh)
        await every(5.0, self._draw)

    def _controls(self) -> None:
        with ui.element("div").classes("tools"):
            self._pause = ui.button("Pause", on_click=self._toggle).props("outline")
            self._scaler("Fewer", -1)
            self._size = html().classes("size")
            self._scaler("More", 1)
            ui.button("Stop the pool", on_click=self._stop).props("outline color=negative")

    def _scaler(self, word: str, step: int) -> None:
        button = ui.button(icon="remove" if step < 0 else "add")
        button.props(f'outline dense aria-label="{word} workers"')
        button.on_click(lambda: self._scale(step))

    async def _toggle(self) -> None:
        paused = (await self._desk.glance.counts()).paused
        done = "The queue goes on" if paused else "The queue is paused; what runs goes on"
        if await attempt(self._desk.store.pause(not paused, actor=ACTOR), done):
            self._desk.ring()
            await self._refresh()

    async def _scale(self, step: int) -> None:
        async def scale() -> None:
            wanted = int((await self._desk.daemon.ask("size"))["wanted"])
            await self._desk.daemon.scale(wanted + step)

        await attempt(scale(), "The pool has another size")
        await self._refresh()

    async def _stop(self) -> None:
        if await confirmed("Stop the pool, and this dashboard with it?", "Stop it"):
            await attempt(self._desk.daemon.ask("stop"), "Running tasks finish, then the pool ends")

    async def _refresh(self) -> None:
        desk = self._desk
        pool, counts = await desk.all_pools(), await desk.glance.counts()
        now = desk.clock.now()
        health = health_view(pool, counts, now)
        self._pause.set_text("Resume" if counts.paused else "Pause")
        self._head.set_content(f"<h1>Worker pool {badge(health['status'])}</h1>")
        self._size.set_content(number(health["workers"]["total"], "worker"))
        self._notes.set_content("".join(_notes(pool, counts)))
        self._tiles.set_content(tiles(_figures(pool, counts, health)))
        self._workers.set_content(_heading("Workers") + await self._cards(pool))
        newest = TaskQuery(limit=NEWEST, sort=Sort(reverse=True))
        tasks = await desk.find(newest)
        table = task_table(tasks, now) if tasks else _empty("No tasks yet. Add the first one.")
        self._tasks.set_content(_heading("Newest tasks") + table)

    async def _cards(self, pool: View) -> str:
        if not pool["workers"]:
            return _empty("No workers.")
        running = TaskQuery(statuses=(Status.RUNNING,), limit=1000)
        tasks = {task.id: task for task in await self._desk.find(running)}
        now, several = self._desk.clock.now(), len(pool["hosts"]) > 1
        return worker_cards(pool["workers"], tasks, now, several=several)

    async def _draw(self) -> None:
        samples = (await self._desk.daemon.recent("figures"))["samples"]
        past = _past(samples)
        waiting = [
            Series("waiting", "a", [each["pending"] for each in samples]),
            Series("running", "b", [each["running"] for each in samples]),
        ]
        self._depth.set_content(chart("Queue", waiting, past))
        speed = [
            Series("completed a second", "b", _rates(samples, "completed")),
            Series("failed a second", "c", _rates(samples, "failed")),
        ]
        self._speed.set_content(chart("Throughput", speed, past))


def _rates(samples: list[Any], key: str) -> list[float]:
    return [max(0.0, (after[key] - before[key]) / 5) for before, after in pairwise(samples)]


def _past(samples: list[Any]) -> str:
    return f"{span(max(5_000, len(samples) * 5_000))} ago"


def _heading(text: str) -> str:
    return f"<h2>{text}</h2>"


def _empty(text: str) -> str:
    return f'<p class="empty">{text}</p>'


def _notes(pool: View, counts: Counts) -> list[str]:
    found = []
    if not pool["isRunning"]:
        found.append("The pool is not running: acode worker start.")
    if counts.paused:
        found.append("The queue is paused: nothing new is started.")
    if pool["backpressure"]:
        found.append(f"Nothing is started at the moment: {pool['backpressure']}")
    lost = [each["name"] for each in pool["hosts"] if each.get("lostAt")]
    found += [f"{name} fell silent: its tasks run elsewhere." for name in lost]
    for each in pool["circuits"]:
        where = f" of {each['workstreamId']}" if each["workstreamId"] else ""
        found.append(
            f"Too many {each['type']} tasks{where} failed: the circuit is {each['status']}."
        )
    return [f'<p class="note">{escape(words)}</p>' for words in found]


def _tasks(status: Status) -> str:
    return f"/tasks?status={status}"


def _figures(pool: View, counts: Counts, health: View) -> list[Tile]:
    workers, used, by = health["workers"], pool["resources"], counts.by_status
    waits = (
        f"oldest {span(health['queue']['oldestTaskAge'])}"
        if by[Status.PENDING]
        else "nothing waits"
    )
    blocked = f", {by[Status.BLOCKED]:,} blocked" if by[Status.BLOCKED] else ""
    failed = by[Status.FAILED]
    up = span(round(pool["uptimeSeconds"] * 1000))
    return [
        Tile("Workers", f"{workers['total']}", f"{workers['active']} busy, {workers['idle']} idle"),
        Tile("Waiting", f"{by[Status.PENDING]:,}", waits + blocked, "", _tasks(Status.PENDING)),
        Tile(
            "Running",
            f"{by[Status.RUNNING]:,}",
            f"of {workers['total']} at once",
            "",
            _tasks(Status.RUNNING),
        ),
        Tile("Completed", f"{by[Status.COMPLETED]:,}", "in all", "", _tasks(Status.COMPLETED)),
        Tile("Failed", f"{failed:,}", "for good", "bad" if failed else "", "/dead-letters"),
        Tile("Processor", f"{used['cpuPercent']:.0f} %", "of one core"),
        Tile("Memory", size(round(used["memoryBytes"])), f"up {up}"),
    ]
