"""Makes the pictures of the dashboards: a throwaway project, a real pool, a real browser."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from acode.app import App
from acode.engine.client import ask
from acode.keys import login_link
from acode.project import Project
from acode.tui.dashboard import Dashboard
from acode.tui.facts import Source

IMAGES = Path(__file__).parents[1] / "docs" / "images"
ACODE = Path(sys.executable).with_name("acode")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SIZE = {"width": 1200, "height": 860}


def main() -> int:
    """Start a pool, let it work, take the pictures, stop it."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        print("no browser: apt-get install chromium")
        return 3
    with tempfile.TemporaryDirectory() as folder:
        project = Project(os.path.join(os.path.realpath(folder), "my-project"))
        project.prepare()
        try:
            long_task = _work(project)
            with sync_playwright() as playwright:
                flags = ["--no-sandbox"] if os.geteuid() == 0 else []
                browser = playwright.chromium.launch(executable_path=path, args=flags)
                _shoot(browser, project, "/", "light")
                _shoot(browser, project, f"/tasks/{long_task}", "dark")
                browser.close()
            asyncio.run(_shoot_terminal(project))
        finally:
            _acode(project, "worker", "stop", "--force")
    return 0


def _acode(project: Project, *words: str) -> str:
    done = subprocess.run(
        [ACODE, "--project", project.root, *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def _work(project: Project) -> str:
    """A pool with something to look at; the id of a task that goes on for a while."""
    _acode(project, "worker", "start", "--count", "4")
    for number in range(1, 41):
        command = f"sleep 0.{number % 9 + 1}; echo done"
        _acode(project, "task", "add", "--title", f"Translate page {number}", "--", command)
    refused = "echo connecting; exit 3"
    _acode(project, "task", "add", "--title", "Deploy to staging", "--", refused)
    lines = r'printf "\033[36mtest_%03d\033[0m \033[32mpassed\033[0m\n" $i'
    talk = f"for i in $(seq 1 400); do {lines}; sleep 0.1; done"
    task = _acode(project, "task", "add", "--title", "Run the test suite", "--", talk)
    _acode(project, "task", "add", "--title", "Index the archive", "--", "sleep 60")
    return task


def _shoot(browser: Browser, project: Project, path: str, scheme: str) -> None:
    url: str = ask(project.control_socket, "status")["apiUrl"]
    context = browser.new_context(viewport=SIZE, color_scheme=scheme)
    page = context.new_page()
    page.goto(login_link(project, url))
    page.wait_for_selector(".worker")
    page.goto(url + path)
    page.wait_for_selector(".worker" if path == "/" else ".terminal time")
    page.wait_for_timeout(12_000 if path == "/" else 3_000)  # until there is something to draw
    page.screenshot(path=IMAGES / f"dashboard-{scheme}.png")
    context.close()


async def _shoot_terminal(project: Project) -> None:
    app = Dashboard(Source(App(project, config=None, environ={})))
    async with app.run_test(size=(110, 28)) as pilot:
        await pilot.pause(1.0)
        (IMAGES / "dashboard-terminal.svg").write_text(app.picture(), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
