"""Dead letters: try them again or give them up, one by one or many at once."""

from collections.abc import Awaitable, Callable
from html import escape
from typing import Any

from nicegui import ui

from acode.errors import AcodeError
from acode.gateway.dashboard.frame import ACTOR, REFRESH_SECONDS, confirmed, every, html, page
from acode.gateway.desk import Desk
from acode.human import ago, number
from acode.model.task import DeadLetter
from acode.views import label

SIZE = 50


def register(desk: Desk) -> None:
    """Teach the dashboard this page."""

    @ui.page("/dead-letters")
    async def letters_page() -> None:
        async with page(desk, "Dead letters", "/dead-letters"):
            await LettersPage(desk).begin()


class LettersPage:
    """The letters, and which of them are chosen."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._chosen: set[str] = set()
        self._letters: list[DeadLetter] | None = None
        self._titles: dict[str, str] = {}
        self._seen = -1
        with ui.element("div").classes("row-head"):
            self._head = html("<h1>Dead letters</h1>")
            with ui.element("div").classes("tools"):
                self._all = ui.checkbox("All", on_change=self._choose_all)
                self._retry = ui.button("Try again", on_click=self._on_retry).props("outline")
                self._drop = ui.button("Give up", on_click=self._on_drop)
                self._drop.props("outline color=negative")
        self._list = ui.element("div").classes("card")

    async def begin(self) -> None:
        """Show how things are, and how they change."""
        await every(REFRESH_SECONDS, self._refresh)

    async def _refresh(self) -> None:
        newest = await self._desk.glance.newest_move()
        if newest == self._seen:
            return  # nothing has moved, so no letter came or went
        self._seen = newest
        letters = await self._desk.archive.dead_letters()
        if letters == self._letters:
            return
        self._letters = letters
        self._titles = {
            letter.task_id: label((await self._desk.glance.get(letter.task_id)).spec)[:200]
            for letter in letters[:SIZE]
        }
        self._chosen &= {letter.task_id for letter in letters}
        self._head.set_content(
            f"<h1>Dead letters <small class='quiet'>{len(letters):,}</small></h1>"
        )
        self._show()

    def _show(self) -> None:
        letters = self._letters or []
        self._list.clear()
        with self._list:
            if not letters:
                html('<p class="empty">No dead letters. Nothing has failed for good.</p>')
            for letter in letters[:SIZE]:
                self._row(letter)
            if len(letters) > SIZE:
                html(
                    f'<p class="empty">and {len(letters) - SIZE:,} more, which All chooses too</p>'
                )
        self._buttons()

    def _row(self, letter: DeadLetter) -> None:
        now = self._desk.clock.now()
        with ui.element("div").classes("row-head letter"):
            box = ui.checkbox(value=letter.task_id in self._chosen)
            box.props(f'aria-label="Choose task {letter.task_id}"')
            box.on_value_change(lambda event, id_=letter.task_id: self._choose(id_, event))
            title = escape(self._titles.get(letter.task_id, letter.task_id))
            reason = escape(letter.failure_reason[:300])
            more = f"{number(letter.attempt_count, 'attempt')}, {ago(letter.last_failure, now)}"
            html(
                f'<a href="/tasks/{letter.task_id}"><b>{title}</b></a>'
                f'<br>{reason}<br><span class="quiet">{escape(letter.task_type)} · '
                f"<code>{letter.task_id}</code> · {more}</span>"
            ).style("flex: 1; min-width: 0; overflow-wrap: anywhere")

    def _choose(self, task_id: str, event: Any) -> None:
        (self._chosen.add if event.value else self._chosen.discard)(task_id)
        self._buttons()

    def _choose_all(self, event: Any) -> None:
        letters = self._letters or []
        self._chosen = {letter.task_id for letter in letters} if event.value else set()
        self._show()

    def _buttons(self) -> None:
        for button in (self._retry, self._drop):
            button.set_enabled(bool(self._chosen))

    async def _on_retry(self) -> None:
        await self._each(lambda id_: self._desk.retry(id_, actor=ACTOR), "queued again")

    async def _on_drop(self) -> None:
        many = number(len(self._chosen), "dead letter")
        if await confirmed(f"Give up {many} for good?", "Give up"):
            await self._each(lambda id_: self._desk.store.drop(id_, actor=ACTOR), "given up")

    async def _each(self, action: Callable[[str], Awaitable[object]], done: str) -> None:
        failed = ""
        count = 0
        for task_id in sorted(self._chosen):
            try:
                await action(task_id)
                count += 1
            except AcodeError as error:
                failed = str(error)
        self._chosen.clear()
        self._all.set_value(False)
        ui.notify(f"{number(count, 'task')} {done}", type="positive")
        if failed:
            ui.notify(failed, type="negative")
        await self._refresh()
