"""`acode queue migrate`: everything arrives, once, whatever happens on the way."""

import shutil
import signal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from acode.clock import Deadline, ManualClock
from acode.errors import StoreBusy
from acode.model.state import Status
from acode.model.verdict import Cancel
from acode.store.base import Store, TaskQuery
from acode.store.postgres import PostgresStore
from acode.store.sqlite import SqliteStore
from tests.cli.conftest import Project
from tests.conformance.kit import PLENTY, World, assert_sound, at_once, report, submission
from tests.postgres.server import rows_of

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("queue-*.db"))[-1]
CLOCK = ManualClock(1_800_000_000_000)
MANY = 20_000


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project whose queue has a bit of everything, and no pool."""
    made = Project(tmp_path)
    made.database.parent.mkdir()
    shutil.copy(GOLDEN, made.database)
    store = opened(made.database)
    (lease,) = at_once(store.leases())
    at_once(store.finish(report(lease, Cancel(), CLOCK.now())))
    at_once(store.close())
    return made


def opened(path: Path) -> SqliteStore:
    return SqliteStore.open(str(path), CLOCK, grouped=False)


async def everything(store: Store) -> list[Any]:
    """Whatever can be asked of a queue."""
    tasks = await store.find(TaskQuery(limit=PLENTY))
    return [
        tasks,
        [await store.record(task.id) for task in tasks],
        await store.record(await store.resolve("01HF7YAT000000000000000001")),
        await store.dead_letters(),
        await store.moves(0, PLENTY),
        await store.newest_move(),
        (await store.counts()).by_status,
        (await store.counts()).pending_by_priority,
    ]


def move(project: Project, address: str) -> Any:
    project.env["NEW_QUEUE"] = address
    return project.ask("queue", "migrate", "--to", "env:NEW_QUEUE")


async def test_everything_arrives_and_comes_back(project: Project, url: str) -> None:
    before = opened(project.database)
    asked, paused = await everything(before), (await before.counts()).paused
    answer = move(project, url)
    assert answer["verified"]
    assert not answer["resumed"]
    there = PostgresStore.open(url, CLOCK, grouped=False)
    assert await everything(there) == asked
    assert (await there.counts()).paused is paused
    assert (await before.counts()).paused
    await assert_sound(there)
    await there.close()
    project.env["ACODE_STORE__URL"] = url
    move(project, "sqlite:///back.db")
    back = opened(project.root / "back.db")
    assert await everything(back) == asked
    await assert_sound(back)
    for store in (before, back):
        await store.close()


async def test_the_new_queue_goes_on_where_the_old_one_stopped(project: Project, url: str) -> None:
    move(project, url)
    store = PostgresStore.open(url, CLOCK, grouped=False)
    world, newest = World(store, CLOCK), await store.newest_move()
    await store.pause(False, actor="user")
    (letter,) = await store.dead_letters()
    await store.retry(letter.task_id, actor="user")
    task_id = await world.add(key="new")
    leases = {lease.task.id: lease for lease in await world.claim(PLENTY)}
    assert leases[letter.task_id].steps == letter.checkpoint
    await world.fail(leases[task_id])
    assert all(move.seq > newest for move in (await store.record(task_id)).history)
    await assert_sound(store)
    await store.close()


def test_a_pause_of_the_user_moves_and_that_of_the_move_does_not(
    project: Project, url: str
) -> None:
    project.run("queue", "resume")
    move(project, url)
    assert project.ask("queue", "status")["paused"]
    project.env["ACODE_STORE__URL"] = url
    assert not project.ask("queue", "status")["paused"]


def fill(project: Project) -> None:
    store = opened(project.database)
    for _ in range(MANY // 5000):
        batch = [submission() for _ in range(5000)]
        at_once(store.add(batch, actor="user", queue_size=PLENTY))
    at_once(store.close())


def kill_in_the_middle(project: Project, url: str) -> None:
    """Kill -9 when some of the tasks have arrived, and not all of them."""
    project.env["NEW_QUEUE"] = url
    deadline = Deadline(60)
    with project.start("queue", "migrate", "--to", "env:NEW_QUEUE") as process:
        with psycopg.connect(url, autocommit=True) as connection:
            while not (
                arrived := connection.execute("SELECT count(*) FROM acode.tasks").fetchone()
            ):
                assert deadline.left() > 0
            while arrived == (0,):
                assert deadline.left() > 0
                assert process.poll() is None
                arrived = connection.execute("SELECT count(*) FROM acode.tasks").fetchone()
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert process.returncode == -signal.SIGKILL


async def test_a_move_that_was_killed_goes_on_where_it_was(project: Project, url: str) -> None:
    fill(project)
    kill_in_the_middle(project, url)
    half = rows_of(url)
    assert 0 < len(half["tasks"]) < MANY
    there = PostgresStore.open(url, grouped=False)
    assert await World(there, CLOCK).claim(PLENTY) == []
    with pytest.raises(StoreBusy, match="being filled"):
        await World(there, CLOCK).add()
    assert move(project, url)["resumed"]
    before = opened(project.database)
    assert await everything(there) == await everything(before)
    await World(there, CLOCK).add()
    assert await there.check() == []
    await there.close()
    await before.close()


async def test_a_queue_that_changed_after_a_kill_is_moved_anew(project: Project, url: str) -> None:
    fill(project)
    kill_in_the_middle(project, url)
    store = opened(project.database)
    (first, *_) = await store.find(TaskQuery(statuses=(Status.PENDING,)))
    await store.cancel(first.id, actor="user")
    assert not move(project, url)["resumed"]
    there = PostgresStore.open(url, grouped=False)
    assert (await there.get(first.id)).status is Status.CANCELLED
    assert await everything(there) == await everything(store)
    await there.close()
    await store.close()


def refusal(project: Project, *words: str) -> str:
    done = project.run("queue", "migrate", *words)
    assert done.code in (1, 2)
    assert "\nhint: " in done.err
    return f"{done.code} {done.err}"


def test_a_queue_that_is_not_empty_is_left_alone(project: Project, url: str) -> None:
    store = PostgresStore.open(url, grouped=False)
    at_once(store.add([submission()], actor="user", queue_size=PLENTY))
    at_once(store.close())
    before = rows_of(url)
    assert "FILE-001" in refusal(project, "--to", url)
    assert rows_of(url) == before
    assert "USAGE" in refusal(project, "--to", "sqlite:///.agent/queue.db")


def test_a_queue_at_work_is_not_moved(project: Project, url: str) -> None:
    assert project.run("worker", "start", "--count", "1").code == 0
    try:
        assert "WORKER-007" in refusal(project, "--to", url)
    finally:
        project.run("worker", "stop")
    store = opened(project.database)
    at_once(store.pause(False, actor="user"))
    at_once(World(store, CLOCK).claim())
    at_once(store.close())
    assert "marked as running" in refusal(project, "--to", url)
    assert rows_of(url)["tasks"] == []


def test_an_address_may_come_from_a_file_and_is_never_quoted(project: Project, url: str) -> None:
    secret = project.root / "secret"
    secret.write_text(f"{url}\n")
    assert project.ask("queue", "migrate", "--to", f"file:{secret}")["verified"]
    for words in ("env:NOT_SET", "file:/not/there", "mysql://u:geheim@h/d", "geheim"):
        assert "geheim" not in refusal(project, "--to", words)
