"""A real browser, and a page in it that remembers everything that went wrong."""

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

if TYPE_CHECKING:
    from tests.web.conftest import Site

NAMES = ("chromium", "chromium-browser", "google-chrome")
expect.set_options(timeout=30_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        path = next(filter(None, map(shutil.which, NAMES)))
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        yield browser
        browser.close()


class Visitor:
    """A page that remembers everything that went wrong."""

    def __init__(self, browser: Browser, site: "Site", **options: Any) -> None:
        options.setdefault("viewport", {"width": 1440, "height": 900})
        self.context = browser.new_context(**options)
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(30_000)
        self.site = site
        self.problems: list[str] = []
        self.requests: set[str] = set()
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self.requests.add(request.url))

    def _heard(self, message: Any) -> None:
        if message.type == "error":
            self.problems.append(message.text)

    def enter(self) -> Page:
        self.page.goto(self.site.login_link())
        expect(self.page.get_by_role("heading", name="Worker pool")).to_be_visible()
        return self.page

    def close(self) -> None:
        self.context.close()


@pytest.fixture
def visitor(browser: Browser, site: "Site") -> Iterator[Visitor]:
    visitor = Visitor(browser, site)
    yield visitor
    visitor.close()
    assert visitor.problems == []
    foreign = [
        url
        for url in visitor.requests
        if not url.startswith((site.url, site.url.replace("http", "ws"), "data:", "blob:"))
    ]
    assert foreign == []


def goto(visitor: Visitor, path: str) -> Page:
    visitor.page.goto(visitor.site.url + path)
    return visitor.page
