"""The README's pictures, taken of a real pool at work: `make screenshots` puts them into docs."""

import asyncio
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from acode.app import App
from acode.project import Project
from acode.tui.dashboard import Dashboard
from acode.tui.facts import Source
from tests.pool.conftest import PoolProject, eventually
from tests.web.browsing import Visitor, goto
from tests.web.conftest import Site

pytestmark = [
    pytest.mark.needs("chromium"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

DESK = {"viewport": {"width": 1280, "height": 900}, "device_scale_factor": 1.5}
PHONE = {"viewport": {"width": 375, "height": 812}, "device_scale_factor": 2}
SUITE = "Run the test suite"
LINES = r'printf "\033[36mtest_%03d\033[0m \033[32mpassed\033[0m\n" $i; sleep 0.1'
DRAWN = "document.querySelector('.chart polyline')?.points.numberOfItems >= 5"


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A repository whose pool has done something, does something, and has more to do."""
    project = PoolProject(Path(tmp_path_factory.mktemp("pictures")) / "my-project")
    _make_repository(project.root)
    project.configure(workers={"limits": {"memoryMb": 1024}})
    project.start(count=4)
    project.add("exit 3", "--title", "Deploy to staging")
    project.add_all([_page(number) for number in range(1, 61)])
    project.hold("index", "--title", "Index the archive", "--priority", "high")
    project.hold("review", "--title", "Review pull request 214", "--priority", "high")
    talk = f"for i in $(seq 1 600); do {LINES}; done"
    project.add(talk, "--title", SUITE, "--priority", "high")
    yield Site(project)
    project.close()


def _make_repository(root: Path) -> None:
    (root / "greeting.py").write_text('def greet(name):\n    print("hello " + name)\n')
    git = ["git", "-C", str(root), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "A greeting"]):
        subprocess.run([*git, *words], check=True)


def _page(number: int) -> dict[str, Any]:
    command = f"sleep 0.{number % 9 + 1}; echo done"
    return {"title": f"Translate page {number}", "command": command, "workspace": "scratch"}


def test_the_pool_at_work(browser: Browser, busy: Site, pictures: Path) -> None:
    visitor = Visitor(browser, busy, color_scheme="light", **DESK)
    page = visitor.enter()
    worker = page.locator(".worker", has_text=SUITE)
    expect(worker).to_have_count(1)
    page.wait_for_function(DRAWN)
    _take(page, pictures / "dashboard-light.png")
    phone = Visitor(browser, busy, color_scheme="dark", **PHONE)
    phone.enter().wait_for_function(DRAWN)
    _take(phone.page, pictures / "dashboard-phone.png")
    phone.close()
    worker.get_by_role("link").click()
    expect(page.get_by_text("test_020")).to_be_attached()
    assert [*visitor.problems, *phone.problems] == []
    visitor.close()


def test_a_task_that_changed_something(browser: Browser, busy: Site, pictures: Path) -> None:
    edit = 'sed -i \'s/"hello " + name/f"hello {name}"/\' greeting.py; echo 1 file changed'
    task = busy.project.add(edit, "--title", "Use f-strings", "--priority", "high")
    visitor = Visitor(browser, busy, color_scheme="dark", **DESK)
    visitor.enter()
    page = goto(visitor, f"/tasks/{task}")
    expect(page.locator("h1 .badge")).to_have_text("completed")
    expect(page.locator("pre.diff .add")).to_have_text('+    print(f"hello {name}")')
    _take(page, pictures / "dashboard-dark.png")
    assert visitor.problems == []
    visitor.close()


def test_the_terminal(busy: Site, pictures: Path) -> None:
    # In a thread: the browser's event loop is this one's already.
    with ThreadPoolExecutor(1) as aside:
        picture = aside.submit(asyncio.run, _terminal(busy.project)).result()
    assert SUITE.replace(" ", "&#160;") in picture
    (pictures / "dashboard-terminal.svg").write_text(picture, encoding="utf-8")


async def _terminal(project: PoolProject) -> str:
    app = Dashboard(Source(App(Project(str(project.root)), config=None, environ={})))
    async with app.run_test(size=(110, 28)) as pilot:
        await pilot.pause()
        return app.picture()


def _take(page: Page, path: Path) -> None:
    path.unlink(missing_ok=True)
    page.screenshot(path=path)
    eventually(lambda: path.stat().st_size > 10_000)
