"""`acode.connect`: a program and the daemon of a project, with a real pool between them."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import acode
from acode.runner import alone
from tests.pool.conftest import PoolProject

JOBS = """
import os

import acode

def add(left, right):
    return left + right

def keys(box):
    return sorted(box)

def note(text):
    with open(os.environ["TRACE"], "a") as file:
        file.write(text + "\\n")
    return text

@acode.handler("two-steps")
async def two_steps(ctx, name):
    first = await ctx.step("first", note, name)
    if ctx.attempt < 2:
        raise acode.TransientError("not yet")
    return [first, ctx.step.__name__, ctx.attempt, ctx.type]

@acode.handler("plain")
def plain(ctx, name, *, loud=False):
    return ctx.step("only", str.upper if loud else str, name)
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[PoolProject]:
    one = PoolProject(tmp_path / "project")
    (one.root / "jobs.py").write_text(JOBS, encoding="utf-8")
    one.env["TRACE"] = str(one.root / "trace")
    import os
    import sys

    (one.root / ".venv" / "bin").mkdir(parents=True)
    os.symlink(sys.executable, one.root / ".venv" / "bin" / "python")
    one.configure(
        sandbox={"level": "off"},
        retry={"initialDelayMs": 1},
        environment={"set": {"TRACE": str(one.root / "trace"), "PYTHONPATH": ":".join(sys.path)}},
    )
    yield one
    one.close()


async def test_a_client_submits_waits_cancels_and_looks(project: PoolProject) -> None:
    async with acode.connect(project.root) as client:
        early = await client.submit("jobs:add", 1, 2, priority="high", title="a sum")
        assert (await client.get(early.id)).status == "pending"
        await asyncio.to_thread(project.start)
        assert await early.result(timeout=60) == 3
        many = await client.submit_many("jobs:add", [(n, n) for n in range(3)])
        assert [await handle.result(timeout=60) for handle in many] == [0, 2, 4]
        assert await (await client.submit("jobs:keys", {"b": 1, "a": 2})).result(60) == ["a", "b"]
        late = await client.submit("jobs:add", 1, 2, delay=3600)
        await client.cancel(late.id)
        with pytest.raises(acode.TaskCancelled):
            await late.result(timeout=60)
        wrong = await client.submit("jobs:add", "text", 2)
        with pytest.raises(acode.TaskFailed, match="TypeError"):
            await wrong.result(timeout=60)
        assert [letter.task_id for letter in await client.dead_letters.list()] == [wrong.id]
        await client.dead_letters.drop(wrong.id)
        await client.scale(1)
        assert (await client.status())["workers"]


async def test_a_handler_runs_in_the_daemon_with_its_steps(project: PoolProject) -> None:
    async with acode.connect(project.root) as client:
        await asyncio.to_thread(project.start)
        handle = await client.submit("jobs:two_steps", "once")
        assert await handle.result(timeout=60) == ["once", "step", 2, "two-steps"]
        assert await (await client.submit("jobs:plain", "word")).result(timeout=60) == "word"
    assert (project.root / "trace").read_text() == "once\n"


async def test_a_client_needs_what_a_daemon_can_import(tmp_path: Path) -> None:
    @acode.handler("local")
    async def local(ctx: acode.Context) -> None: ...

    (tmp_path / ".agent").mkdir()
    async with acode.connect(tmp_path) as client:
        for wrong in (local, "local", "nobody"):
            with pytest.raises(acode.InvalidTask, match="cannot import"):
                await client.submit(wrong)
        with pytest.raises(acode.InvalidTask):
            await client.submit("jobs:add", object())
        with pytest.raises(acode.AcodeError, match="no worker pool runs"):
            await client.scale(2)


async def test_events_of_a_project_are_the_moves_of_its_tasks(tmp_path: Path) -> None:
    (tmp_path / ".agent").mkdir()
    async with acode.connect(tmp_path) as client:
        await client.submit("jobs:add", 1, 2)
        events = client.events()
        begun = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.01)
        handle = await client.submit("jobs:add", 3, 4)
        event = await asyncio.wait_for(begun, 60)
        assert (event.type, event.payload["taskId"]) == ("task.added", handle.id)
        await events.aclose()  # type: ignore[attr-defined]


def test_a_checkpoint_file_that_is_no_checkpoint_is_none(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    for text in ("", "nonsense", "[1]"):
        path.write_text(text)
        assert alone.File(str(path)).load() == {}
    alone.File(str(path)).save("first", 1)
    alone.File(str(path)).save("second", [2])
    assert alone.File(str(path)).load() == {"first": 1, "second": [2]}
    assert alone.File(None).load() == {}
