"""The terminal dashboard, driven by its keys, on a real pool."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, Static

from acode.app import App
from acode.clock import Deadline
from acode.model.state import Status
from acode.project import Project
from acode.tui.dashboard import Dashboard
from acode.tui.facts import Source
from tests.cli.conftest import problem_of
from tests.pool.conftest import PATIENCE, PoolProject


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PoolProject]:
    project = PoolProject(Path(tmp_path_factory.mktemp("tui")) / "project")
    project.configure(api={"enabled": False})
    project.start(count=2)
    project.wait(*(project.add("echo said", "--title", f"Task {n}") for n in range(5)))
    yield project
    project.close()


def dashboard(project: PoolProject, **options: Any) -> Dashboard:
    app = App(Project(str(project.root)), config=None, environ={})
    return Dashboard(Source(app), folder=str(project.root), **options)


async def comes(pilot: "Pilot[None]", condition: Callable[[], object]) -> None:
    deadline = Deadline(PATIENCE)
    while not condition():
        assert deadline.left() > 0, "it never came true"
        await pilot.pause(0.05)


def tasks(app: Dashboard) -> "DataTable[Any]":
    return app.query_one("#tasks", DataTable)


def titles(app: Dashboard) -> list[str]:
    table = tasks(app)
    return [str(table.get_row_at(row)[-1]) for row in range(table.row_count)]


def head(app: Dashboard) -> str:
    return str(app.query_one("#head", Static).render())


async def test_pool_and_tasks_are_shown_live(project: PoolProject) -> None:
    app = dashboard(project)
    async with app.run_test(size=(120, 40)) as pilot:
        assert "workers 2" in head(app)
        assert app.query_one("#workers", DataTable).row_count == 2
        assert titles(app)[0] == "Task 4"
        await asyncio.to_thread(project.add, "true", "--title", "Newcomer")
        await comes(pilot, lambda: titles(app)[0] == "Newcomer")


async def test_vim_keys_and_arrows_move(project: PoolProject) -> None:
    app = dashboard(project)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("j", "j", "down")
        assert tasks(app).cursor_row == 3
        await pilot.press("k", "up")
        assert tasks(app).cursor_row == 1
        await pilot.press("G")
        assert tasks(app).cursor_row == tasks(app).row_count - 1
        await pilot.press("g")
        assert tasks(app).cursor_row == 0
        await pilot.press("j")
        await app.refresh_facts()
        assert tasks(app).cursor_row == 1, "a look does not move the cursor"


async def test_a_filter_finds_while_it_is_typed(project: PoolProject) -> None:
    app = dashboard(project)
    async with app.run_test(size=(120, 40)) as pilot:
        everything = len(titles(app))
        await pilot.press("slash", *"task")
        await pilot.press("space", "3")
        await comes(pilot, lambda: titles(app) == ["Task 3"])
        await pilot.press("enter")
        assert app.focused is tasks(app)
        await pilot.press("escape")
        await comes(pilot, lambda: len(titles(app)) >= everything)
        assert app.query_one("#filter", Input).value == ""


async def test_a_task_is_shown_with_its_output(project: PoolProject) -> None:
    app = dashboard(project)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("slash", *"Task", "space", "2", "enter")
        await comes(pilot, lambda: titles(app) == ["Task 2"])
        await pilot.press("enter")
        await comes(pilot, lambda: len(app.screen_stack) == 2)
        text = str(app.screen.query_one(Static).render())
        assert "it completed at" in text
        assert "said" in text
        await pilot.press("escape")
        assert len(app.screen_stack) == 1


async def test_help_snapshot_and_compact(project: PoolProject) -> None:
    app = dashboard(project, compact=True)
    async with app.run_test(size=(60, 15)) as pilot:
        assert not app.query_one("#workers").display
        await pilot.press("m")
        assert app.query_one("#workers").display
        await pilot.press("question_mark")
        assert "try it again" in str(app.screen.query_one(Static).render())
        await pilot.press("question_mark")
        assert len(app.screen_stack) == 1
        await pilot.press("s")
        await comes(pilot, lambda: list(project.root.glob("*.svg")))
        (picture,) = project.root.glob("*.svg")
        assert "cdn" not in picture.read_text()


async def test_cancel_retry_and_pause(project: PoolProject) -> None:
    app = dashboard(project)

    async def ask(*words: str) -> Any:
        return await asyncio.to_thread(project.ask, *words)

    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("p")
        assert (await ask("queue", "status"))["paused"] is True
        assert "paused" in head(app)
        task = await asyncio.to_thread(project.add, "true", "--title", "Held")
        await comes(pilot, lambda: titles(app)[0] == "Held")
        await pilot.press("g", "c")
        assert (await ask("task", "show", task))["status"] == "cancelled"
        await pilot.press("c")
        assert (await ask("task", "show", task))["status"] == "cancelled"
        await pilot.press("r")
        assert (await ask("task", "show", task))["status"] == "pending"
        await pilot.press("p")
        await comes(pilot, lambda: "paused" not in head(app))
        await asyncio.to_thread(project.wait, task)


async def test_one_status_at_a_time(project: PoolProject) -> None:
    failed = await asyncio.to_thread(project.add, "exit 3", "--title", "Broken")
    await asyncio.to_thread(project.wait, failed)
    app = dashboard(project)
    async with app.run_test(size=(120, 40)) as pilot:
        everything = titles(app)
        for _ in range(list(Status).index(Status.FAILED) + 1):
            await pilot.press("f")
        assert titles(app) == ["Broken"]
        assert tasks(app).border_title == "newest failed tasks"
        await pilot.press("escape")
        await comes(pilot, lambda: titles(app) == everything)


async def test_workers_say_what_they_run_and_can_be_more(project: PoolProject) -> None:
    held = await asyncio.to_thread(project.hold, "held", "--title", "Index the archive")
    app = dashboard(project)
    async with app.run_test(size=(120, 40)) as pilot:
        workers = app.query_one("#workers", DataTable)

        def doing() -> set[str]:
            return {str(workers.get_row_at(row)[-1]) for row in range(workers.row_count)}

        await comes(pilot, lambda: "Index the archive" in doing())
        await pilot.press("plus")
        await comes(pilot, lambda: workers.row_count == 3)
        await pilot.press("minus")
        await comes(pilot, lambda: workers.row_count == 2)
    await asyncio.to_thread(project.run, "task", "cancel", "--force", held)


async def test_without_a_pool_it_says_so(tmp_path: Path) -> None:
    app = Dashboard(Source(App(Project(str(tmp_path)), config=None, environ={})))
    async with app.run_test(size=(120, 40)) as pilot:
        assert "no pool runs" in head(app)
        assert tasks(app).row_count == 0
        await pilot.press("c", "r", "j", "enter", "plus")


def test_a_script_is_told_what_to_use(project: PoolProject) -> None:
    assert "needs a terminal" in problem_of(project.run("dashboard"), 2, "USAGE")


def test_a_link_needs_a_web_dashboard(project: PoolProject) -> None:
    assert "no web dashboard" in problem_of(project.run("dashboard", "--link"), 1, "WORKER-002")
