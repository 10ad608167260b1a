"""The dashboard in a real browser: every control, live, and nothing from elsewhere."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from acode.cli.context import drive
from acode.clock import SystemClock
from acode.engine.client import ask
from acode.ids import new_id
from acode.model.task import Submission, TaskSpec
from acode.project import Project
from acode.store.sqlite import SqliteStore
from tests.pool.conftest import PoolProject, eventually
from tests.web.browsing import Visitor, goto
from tests.web.conftest import Site

pytestmark = [
    pytest.mark.needs("chromium"),
    # Playwright leaves its loop to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def test_the_pool_is_live_without_a_reload(visitor: Visitor) -> None:
    page, site = visitor.enter(), visitor.site
    expect(page.locator(".worker")).to_have_count(2)
    held = site.project.hold("live", "--title", "A task to watch")
    expect(page.locator(".worker", has_text="A task to watch")).to_have_count(1)
    expect(page.locator(".worker .badge.busy")).to_have_count(1)
    site.project.let_go("live")
    expect(page.locator(".worker .badge.busy")).to_have_count(0)
    row = page.locator("tr", has_text="A task to watch")
    expect(row.locator(".badge")).to_have_text("completed")
    expect(page.locator(".chart svg")).to_have_count(2)
    row.get_by_role("link").click()
    expect(page).to_have_url(f"{site.url}/tasks/{held}")


def test_a_page_comes_with_what_there_is(site: Site) -> None:
    task = site.add("true", title="There from the first moment")
    assert b"There from the first moment" in site.call("GET", "/").body
    assert b"There from the first moment" in site.call("GET", f"/tasks/{task}").body
    assert b"There from the first moment" in site.call("GET", "/tasks").body


def test_pause_resume_and_scale(visitor: Visitor) -> None:
    page, site = visitor.enter(), visitor.site
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("The queue is paused: nothing new is started.")).to_be_visible()
    assert site.get("/api/queue")["paused"] is True
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    page.get_by_role("button", name="More workers").click()
    expect(page.locator(".worker")).to_have_count(3)
    page.get_by_role("button", name="Fewer workers").click()
    expect(page.locator(".worker")).to_have_count(2)


def test_a_task_is_added_by_the_form(visitor: Visitor) -> None:
    page, site = visitor.enter(), visitor.site
    page.get_by_role("button", name="Add a task").click()
    page.get_by_role("button", name="Add the task").click()
    expect(page.get_by_role("alert").get_by_text("command")).to_be_visible()
    page.get_by_label("Command").fill("printf '\\033[31mred\\033[0m <b>plain</b>\\n'; echo found")
    page.get_by_label("Title").fill("From the form")
    page.get_by_role("button", name="Add the task").click()
    expect(page.get_by_role("heading", name="From the form")).to_be_visible()
    expect(page.locator("h1 .badge")).to_have_text("completed")
    task = page.url.rpartition("/")[2]
    assert site.get(f"/api/workers/tasks/{task}")["history"][0]["actor"] == "dashboard"
    terminal = page.get_by_role("log", name="Output of the task")
    expect(terminal.get_by_text("red", exact=True)).to_have_attribute("style", "color:#ff8a80")
    expect(terminal.get_by_text("<b>plain</b>")).to_be_visible()
    page.get_by_label("Search the output").fill("foun")
    expect(terminal.locator("mark")).to_have_text("foun")
    expect(terminal.get_by_text("plain")).to_have_count(0)
    expect(page.get_by_text("it completed at")).to_be_visible()


def test_every_field_of_the_form_counts(visitor: Visitor) -> None:
    page, site = visitor.enter(), visitor.site
    before = site.add("true")
    goto(visitor, "/new")
    page.get_by_label("Command").fill("exit 75")
    page.get_by_role("combobox", name="Type").click()
    page.get_by_role("option", name="script").click()
    page.get_by_role("combobox", name="Priority").click()
    page.get_by_role("option", name="low").click()
    page.get_by_label("Workstream").fill("docs")
    page.get_by_label("Timeout in seconds").fill("7")
    page.get_by_label("Retries").fill("0")
    page.get_by_label("After these tasks").fill(before)
    page.get_by_role("combobox", name="Type").click()
    page.get_by_role("option", name="shell").click()
    page.get_by_role("button", name="Add the task").click()
    expect(page.locator("h1 .badge")).to_have_text("failed")
    seen = site.get(f"/api/workers/tasks/{page.url.rpartition('/')[2]}")
    assert (seen["type"], seen["priority"], seen["workstreamId"]) == ("shell", "low", "docs")
    assert (seen["timeoutSeconds"], seen["retryLimit"]) == (7, 0)
    assert seen["dependencies"] == [before]


def test_the_pool_is_stopped_after_a_question(browser: Browser, own_site: Site) -> None:
    visitor = Visitor(browser, own_site)
    page = visitor.enter()
    page.get_by_role("button", name="Stop the pool").click()
    page.get_by_role("dialog").get_by_role("button", name="No").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert own_site.project.pool()["isRunning"] is True
    page.get_by_role("button", name="Stop the pool").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop it").click()
    eventually(lambda: not own_site.project.pool()["isRunning"])
    visitor.close()


def test_a_running_task_is_followed_and_cancelled(visitor: Visitor) -> None:
    page, site = visitor.enter(), visitor.site
    task = site.add("for i in $(seq 1 1000); do echo line $i; sleep 0.1; done", title="Talker")
    goto(visitor, f"/tasks/{task}")
    terminal = page.get_by_role("log", name="Output of the task")
    expect(terminal.get_by_text("line 3", exact=True)).to_be_attached()
    expect(terminal.get_by_text("line 15", exact=True)).to_be_attached()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("h1 .badge")).to_have_text("cancelled")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("h1 .badge")).to_have_text("running")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("h1 .badge")).to_have_text("cancelled")


AT_THE_END = """() => {
    const e = document.querySelector('.terminal');
    return e && e.scrollTop > 0 && e.scrollHeight - e.scrollTop - e.clientHeight < 40;
}"""


def test_a_log_follows_its_end_until_somebody_reads(visitor: Visitor) -> None:
    visitor.enter()
    site = visitor.site
    more = site.project.root / "more"
    wait = f"while [ ! -e {more} ]; do sleep 0.05; done"
    task = site.add(f"seq 1 300; {wait}; echo the last one; sleep 600")
    page = goto(visitor, f"/tasks/{task}")
    page.wait_for_function(AT_THE_END)
    terminal = page.get_by_role("log", name="Output of the task")
    terminal.evaluate("e => { e.scrollTop = 0 }")
    expect(terminal).to_have_attribute("data-held", "yes")
    more.touch()
    expect(terminal.get_by_text("the last one")).to_be_attached()
    assert terminal.evaluate("e => e.scrollTop") == 0
    site.call("DELETE", f"/api/workers/tasks/{task}?force=1")


def test_changes_and_artifacts(visitor: Visitor) -> None:
    page, site = visitor.enter(), visitor.site
    task = site.add("true")
    folder = site.project.agent / "artifacts" / task
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "changes.patch").write_text("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old <i>\n+new\n")
    (folder / "a report.txt").write_text("hello")
    goto(visitor, f"/tasks/{task}")
    expect(page.locator("pre.diff .del")).to_have_text("-old <i>")
    expect(page.locator("pre.diff .add")).to_have_text("+new")
    with page.expect_download() as download:
        page.get_by_role("link", name="a report.txt").click()
    assert download.value.path().read_text() == "hello"


def test_tasks_are_searched_filtered_and_paged(visitor: Visitor) -> None:
    page, site = visitor.enter(), visitor.site
    site.project.run("queue", "pause")
    ids = site.project.add_all([{"command": "true", "title": f"Page {n:03}"} for n in range(120)])
    goto(visitor, "/tasks")
    expect(page.locator("tbody tr")).to_have_count(50)
    expect(page.locator("tbody tr").first).to_contain_text("Page 119")
    page.get_by_role("button", name="Next").click()
    expect(page.locator("tbody tr").first).to_contain_text("Page 069")
    page.get_by_role("button", name="Previous").click()
    page.keyboard.press("Escape")
    page.locator("body").press("/")
    page.keyboard.type("page 07")
    expect(page.locator("tbody tr")).to_have_count(10)
    page.get_by_label("Search tasks").fill("no such thing")
    expect(page.get_by_text("No task fits.")).to_be_visible()
    page.get_by_label("Search tasks").fill("")
    page.get_by_role("combobox", name="Order").click()
    page.get_by_role("option", name="oldest").click()
    page.get_by_role("combobox", name="Status").click()
    page.get_by_role("option", name="pending").click()
    expect(page.locator("tbody tr").first).to_contain_text("Page 000")
    site.project.run("task", "cancel", *ids)
    site.project.run("queue", "resume")
    expect(page.get_by_text("No task fits.")).to_be_visible()


def test_a_hundred_thousand_tasks_are_paged(browser: Browser, own_site: Site) -> None:
    own_site.project.run("queue", "pause")
    drive(fill(own_site.project, 100_000))
    visitor = Visitor(browser, own_site)
    visitor.enter()
    page = goto(visitor, "/tasks")
    expect(page.get_by_text("1 to 50 of 100,000")).to_be_visible()
    expect(page.get_by_role("button", name="Previous")).to_be_disabled()
    page.get_by_label("Page", exact=True).fill("2000")
    expect(page.get_by_text("99,951 to 100,000 of 100,000")).to_be_visible()
    expect(page.locator("tbody tr").last).to_contain_text("Task 0")
    expect(page.get_by_role("button", name="Next")).to_be_disabled()
    page.get_by_role("button", name="Previous").click()
    expect(page.get_by_text("99,901 to 99,950 of 100,000")).to_be_visible()
    page.get_by_label("Search tasks").fill("task 77777")
    expect(page.locator("tbody tr")).to_have_count(1)
    assert visitor.problems == []
    visitor.close()


async def fill(project: PoolProject, count: int) -> None:
    """Tasks for a queue that is paused, as many programs would add them."""
    store = SqliteStore.open(str(project.agent / "queue.db"), SystemClock(), grouped=False)
    for first in range(0, count, 10_000):
        specs = (TaskSpec(command="true", title=f"Task {first + n}") for n in range(10_000))
        new = [Submission(new_id(SystemClock().now()), spec) for spec in specs]
        await store.add(new, actor="test", queue_size=count)
    await store.close()


def test_dead_letters_are_retried_and_given_up(visitor: Visitor) -> None:
    page, site = visitor.enter(), visitor.site
    for letter in site.get("/api/dlq"):
        site.call("DELETE", f"/api/dlq/{letter['taskId']}")
    goto(visitor, "/dead-letters")
    expect(page.get_by_text("No dead letters. Nothing has failed for good.")).to_be_visible()
    flag = site.project.root / "mended"
    tasks = [site.add(f"test -e {flag}", title=f"Letter {n}") for n in range(3)]
    expect(page.get_by_role("checkbox", name="Choose task")).to_have_count(3)
    expect(page.get_by_role("link", name="Letter 1")).to_have_attribute(
        "href", f"/tasks/{tasks[1]}"
    )
    expect(page.get_by_role("button", name="Try again")).to_be_disabled()
    flag.touch()
    page.get_by_role("checkbox", name=f"Choose task {tasks[0]}").click()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("checkbox", name="Choose task")).to_have_count(2)
    page.get_by_role("checkbox", name="All").click()
    page.get_by_role("button", name="Give up").click()
    page.get_by_role("dialog").get_by_role("button", name="Give up").click()
    expect(page.get_by_text("No dead letters. Nothing has failed for good.")).to_be_visible()
    statuses = [site.project.status(task) for task in tasks]
    assert statuses == ["completed", "cancelled", "cancelled"]


def test_events_are_fed(visitor: Visitor) -> None:
    page, site = visitor.enter(), visitor.site
    goto(visitor, "/events")
    task = site.add("true")
    expect(page.locator(".feed li", has_text=task).first).to_be_visible()
    page.get_by_label("Search events").fill("task.completed")
    expect(page.locator(".feed li", has_text=task)).to_have_count(1)


def test_a_feed_can_be_held(visitor: Visitor) -> None:
    visitor.enter()
    page = goto(visitor, "/events")
    live = page.get_by_role("checkbox", name="Live")
    live.click()
    expect(live).to_have_attribute("aria-checked", "false")
    task = visitor.site.add("true")
    visitor.site.project.wait(task)
    feed = page.get_by_role("log", name="Events")
    expect(feed.get_by_text(task)).to_have_count(0)
    live.click()
    expect(feed.get_by_text(task).first).to_be_visible()


def test_a_page_comes_back_after_the_gateway_was_killed(browser: Browser, site: Site) -> None:
    visitor = Visitor(browser, site)
    page = visitor.enter()
    site.kill()
    title = "Added while nobody was there"
    site.project.add("true", "--title", title)
    expect(page.locator("tr", has_text=title).locator(".badge")).to_have_text("completed")
    visitor.close()


def test_charts_go_on_after_the_pool_was_started_anew(browser: Browser, own_site: Site) -> None:
    project = own_site.project
    project.wait(*(project.add("true") for _ in range(3)))
    project.stop()
    project.start()
    figures = ask(Project(str(project.root)).control_socket, "figures")
    before = [each["completed"] for each in figures["samples"]]
    assert -3 in before, "what was completed before the start is counted back from it"
    visitor = Visitor(browser, Site(project))
    lines = visitor.enter().locator(".chart", has_text="Throughput").locator("polyline.b")
    expect(lines).to_have_attribute("points", re.compile(r"\d+\.\d,(?!119\.0)"))
    visitor.close()


def test_a_page_that_is_not_there(visitor: Visitor) -> None:
    visitor.enter()
    page = goto(visitor, "/tasks/01ZZZZ")
    expect(page.get_by_role("heading", name="No such task")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1440])
def test_every_page_fits_and_has_names(
    browser: Browser, site: Site, scheme: Any, width: int, pictures: Path
) -> None:
    visitor = Visitor(browser, site, viewport={"width": width, "height": 812}, color_scheme=scheme)
    page = visitor.enter()
    task = site.add("echo a rather long line; " * 20, title="A long title " * 10)
    for path in ("/", "/tasks", f"/tasks/{task}", "/dead-letters", "/events", "/new"):
        goto(visitor, path)
        expect(page.locator("h1").first).to_be_visible()
        eventually(lambda: page.evaluate("document.body.className").find(f"body--{scheme}") >= 0)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        nameless = page.evaluate(
            "[...document.querySelectorAll('button, a, input')].filter(e => !(e.innerText"
            " || e.closest('[role=checkbox]')?.textContent"
            " || e.closest('[role=checkbox][aria-label]')"
            " || e.getAttribute('aria-label') || e.labels?.length || e.title)).length"
        )
        assert nameless == 0, path
        name = path.replace(task, "one").strip("/").replace("/", "-") or "pool"
        page.screenshot(path=pictures / f"{name}-{scheme}-{width}.png", full_page=True)
    assert page.evaluate("document.documentElement.lang") == "en-US"
    assert visitor.problems == []
    visitor.close()


def test_the_keyboard_is_enough(visitor: Visitor) -> None:
    page = visitor.enter()
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to the content")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Tasks")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{visitor.site.url}/tasks")


def test_the_look_can_be_chosen_and_stays(visitor: Visitor) -> None:
    page = visitor.enter()
    page.get_by_role("button", name="Light or dark").click()
    expect(page.locator("body.body--dark")).to_be_attached()
    page.reload()
    expect(page.locator("body.body--dark")).to_be_attached()
