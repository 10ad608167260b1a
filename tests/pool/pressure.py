"""What can be seen of a pool that begins nothing further."""

from acode.observe.feed import entries
from tests.pool.conftest import PoolProject, eventually


def held_back(project: PoolProject, why: str) -> str:
    """A task that waits because of this, and everybody says so."""
    eventually(lambda: why in (project.pool()["backpressure"] or ""))
    waiting = project.add("true")
    assert any(why in reason for reason in project.ask("task", "why", waiting)["reasons"])
    return waiting


def begun_again(project: PoolProject, waiting: str) -> None:
    """It went on by itself."""
    assert project.wait(waiting).code == 0
    eventually(lambda: "tasks are begun again" in project.daemon_log())
    assert project.pool()["backpressure"] is None


def told_once(project: PoolProject) -> None:
    """The log has a line for each change, and so has the feed."""
    assert project.daemon_log().count("no further task is begun") == 1
    assert project.daemon_log().count("tasks are begun again") == 1
    path = str(project.agent / "run" / "feed" / "events.jsonl")
    eventually(lambda: [told.type for told, _ in entries(path)].count("pool.backpressure") == 2)
