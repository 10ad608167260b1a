"""Steps: what is done is kept, and not done again."""

import asyncio
import os
import signal
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import acode
from acode.clock import ManualClock
from tests.embedded.conftest import Bench, Program, note, until


def done(path: str, step: str) -> str:
    note(path, step)
    return f"{step} is done"


async def done_later(path: str, step: str) -> str:
    await asyncio.sleep(0)
    return done(path, step)


def broken() -> None:
    raise OSError("it is broken")


@acode.handler("three-steps")
async def three_steps(ctx: acode.Context, path: str) -> list[str | None]:
    first = await ctx.step("first", done, path, "first")
    second = await ctx.step("second", done_later, path, "second")
    if ctx.attempt < 3:
        await ctx.step("third", _fail_transiently)
    return [first, second, await ctx.step("third", done, path, "third")]


@acode.handler("three-steps-in-a-thread")
def three_steps_in_a_thread(ctx: acode.SyncContext, path: str) -> list[str | None]:
    first = ctx.step("first", done, path, "first")
    second = ctx.step("second", done, path, "second")
    if ctx.attempt < 3:
        ctx.step("third", _fail_transiently)
    return [first, second, ctx.step("third", done, path, "third")]


def _fail_transiently() -> str:
    raise acode.TransientError("not yet")


@pytest.mark.req("lld-16")
async def test_finished_steps_are_skipped_when_a_task_is_tried_again(bench: Bench) -> None:
    async with bench.pool() as pool:
        for handler in (three_steps, three_steps_in_a_thread):
            path = bench.path(handler.__name__)
            handle = await pool.submit(handler, path)
            wanted = ["first is done", "second is done", "third is done"]
            assert await handle.result() == wanted
            assert bench.lines(handler.__name__) == ["first", "second", "third"]
            task = await pool.get(handle.id)
            assert task.attempt_count == 3
            assert task.attempts[0].error is not None
            assert task.attempts[0].error.failed_step == "third"
        if bench.kind.durable:
            connection = sqlite3.connect(bench.path("queue.db"))
            assert connection.execute("SELECT count(*) FROM checkpoints").fetchone() == (0,)
            connection.close()


@acode.handler("does-without")
async def does_without(ctx: acode.Context, path: str) -> Any:
    value = await ctx.step("comment", broken, critical=False)
    return [value, await ctx.step("after", done, path, "after"), dict(ctx.checkpoint)]


@acode.handler("does-without-in-a-thread")
def does_without_in_a_thread(ctx: acode.SyncContext, path: str) -> Any:
    value = ctx.step("comment", broken, critical=False)
    return [value, ctx.step("after", done, path, "after"), dict(ctx.checkpoint)]


@pytest.mark.req("lld-16")
async def test_a_step_that_is_not_critical_only_warns(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench.pool() as pool:
        for handler in (does_without, does_without_in_a_thread):
            handle = await pool.submit(handler, bench.path("x"))
            assert await handle.result() == [None, "after is done", {"after": "after is done"}]
            await until(lambda: f"task {handle.id}" in caplog.text)  # noqa: B023
    assert "step comment failed and is left out: OSError: it is broken" in caplog.text


@acode.handler("two-halves")
async def two_halves(ctx: acode.Context, path: str) -> str:
    await ctx.step("first", done, path, "first")
    if not os.path.exists(f"{path}.repaired"):  # noqa: ASYNC240
        raise acode.PartialError("the second half failed", failed_step="second")
    return await ctx.step("second", done, path, "second")


@pytest.mark.req("lld-16", "lld-17")
async def test_a_dead_letter_keeps_the_checkpoint_and_goes_on_after_it(bench: Bench) -> None:
    async with bench.pool() as pool:
        handle = await pool.submit(two_halves, bench.path("x"), retries=1)
        with pytest.raises(acode.TaskFailed):
            await handle.result()
        letter = await pool.dead_letters.get(handle.id)
        assert letter.checkpoint == {"first": "first is done"}
        note(bench.path("x.repaired"), "")
        assert await (await pool.dead_letters.retry(handle.id)).result() == "second is done"
    assert bench.lines("x") == ["first", "second"]


@acode.handler("keeps-nonsense")
async def keeps_nonsense(ctx: acode.Context) -> None:
    await ctx.step("nonsense", object)


async def test_the_value_of_a_step_is_json(in_memory: Bench) -> None:
    async with in_memory.pool() as pool:
        handle = await pool.submit(keeps_nonsense)
        with pytest.raises(acode.TaskFailed, match="step nonsense is a object") as caught:
            await handle.result()
        assert caught.value.failure.failed_step == "nonsense"


@acode.handler("many-steps")
async def many_steps(ctx: acode.Context, count: int) -> list[int]:
    one = [ctx.step(f"step {n}", lambda n=n: n) for n in range(count)]
    return list(await asyncio.gather(*one))


async def test_steps_may_be_under_way_at_once(bench: Bench) -> None:
    async with bench.pool() as pool:
        assert await (await pool.submit(many_steps, 20)).result() == list(range(20))


@acode.handler("wait-after-a-step")
async def wait_after_a_step(ctx: acode.Context, path: str) -> None:
    await ctx.step("first", done, path, "first")
    await asyncio.sleep(3600)


@pytest.mark.req("lld-19")
async def test_orphaned_checkpoints_are_removed_when_they_are_old(tmp_path: Any) -> None:
    path, clock = str(tmp_path / "queue.db"), ManualClock()

    def kept() -> int:
        connection = sqlite3.connect(path)
        (count,) = connection.execute("SELECT count(*) FROM checkpoints").fetchone()
        connection.close()
        return int(count)

    async def cancelled_after_a_step(name: str) -> None:
        async with acode.Pool(store=f"sqlite:///{path}", clock=clock) as pool:
            handle = await pool.submit(wait_after_a_step, str(tmp_path / name))
            await until(lambda: kept() > before)
            await pool.cancel(handle.id)
            with pytest.raises(acode.TaskCancelled):
                await handle.result()

    before = 0
    await cancelled_after_a_step("old")
    assert kept() == 1
    clock.advance(8 * 86_400_000)
    before = 0
    async with acode.Pool(store=f"sqlite:///{path}", clock=clock):
        await until(lambda: kept() == 0)
    await cancelled_after_a_step("young")
    async with acode.Pool(
        store=f"sqlite:///{path}", clock=clock, checkpoint_max_age_days=1
    ) as pool:
        await pool.submit("nobody")
        assert kept() == 1


KILLED = """
    import asyncio, os, signal, sys
    import acode

    def note(text):
        with open("trace", "a") as file:
            file.write(text + "\\n")
        return text

    def die_once():
        if not os.path.exists("died"):
            open("died", "w").close()
            os.kill(int(os.environ["PROGRAM"]), signal.SIGKILL)
            signal.pause()
        return note("second")

    @acode.handler("steps")
    {async_}def steps(ctx):
        {await_}ctx.step("first", note, "first")
        {await_}ctx.step("second", die_once)
        {await_}ctx.step("third", note, "third")
        return ctx.attempt

    async def main():
        os.environ["PROGRAM"] = str(os.getpid())
        retry = acode.Retry(initial_delay_ms=1)
        url, isolation = "sqlite:///queue.db", sys.argv[1]
        async with acode.Pool(store=url, isolation=isolation, retry=retry) as pool:
            handle = await pool.submit(steps, key="the one")
            print(await handle.result())

    asyncio.run(main())
"""


@pytest.mark.req("lld-16")
@pytest.mark.parametrize("isolation", ["inline", "process"])
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
def test_a_program_that_is_killed_between_steps_does_not_repeat_them(
    program: Callable[[str], Program], isolation: str, is_async: bool
) -> None:
    words = {"{async_}": "async ", "{await_}": "await "}
    text = KILLED
    for name, word in words.items():
        text = text.replace(name, word if is_async else "")
    one = program(text)
    killed = one.start(isolation)
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert one.lines("trace") == ["first"]
    assert one.run(isolation) == "2\n"
    assert one.lines("trace") == ["first", "second", "third"]


KILLED_AHEAD = """
    import asyncio, os, signal, sys, time
    import acode

    @acode.handler("quick")
    def quick(ctx):
        return 0

    @acode.handler("deadly")
    def deadly(ctx, number):
        if number == 9 and not os.path.exists("died"):
            while not os.path.exists("ids"):
                time.sleep(0.01)
            open("died", "w").close()
            os.kill(int(os.environ["PROGRAM"]), signal.SIGKILL)
            time.sleep(3600)
        return number

    async def main():
        os.environ["PROGRAM"] = str(os.getpid())
        url, isolation, retry = "sqlite:///queue.db", sys.argv[1], acode.Retry(initial_delay_ms=1)
        options = dict(store=url, isolation=isolation, workers=1, queue_size=1000, retry=retry)
        async with acode.Pool(**options) as pool:
            if not os.path.exists("ids"):
                for handle in await pool.submit_many(quick, [()] * 200):
                    await handle.result()
                handles = await pool.submit_many(deadly, [(n,) for n in range(40)])
                with open("new", "w") as file:
                    file.write(" ".join(handle.id for handle in handles))
                os.rename("new", "ids")
                await asyncio.sleep(3600)
            with open("ids") as file:
                ids = file.read().split()
            for id_ in ids:
                await pool.handle(id_).result()
            tasks = [await pool.get(id_) for id_ in ids]
            print(*(task.attempt_count for task in tasks))
            print(sum(len(task.attempts) for task in tasks))

    asyncio.run(main())
"""


@pytest.mark.parametrize("isolation", ["inline", "process"])
def test_what_a_killed_program_had_not_begun_does_not_count(
    program: Callable[[str], Program], isolation: str
) -> None:
    one = program(KILLED_AHEAD)
    killed = one.start(isolation)
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    counts, attempts = one.run(isolation).splitlines()
    assert counts == " ".join([*["1"] * 9, "2", *["1"] * 30])
    assert int(attempts) > 41, "others were claimed as well"


@acode.handler("waits-for-threads")
def waits_for_threads(ctx: acode.SyncContext, path: str) -> list[bool]:
    before = ctx.stopped
    started = threading.Event()
    note(path, "began")
    while not ctx.stopped:
        started.wait(0.005)
    note(path, "noticed")
    return [before, ctx.stopped]


async def test_a_plain_handler_can_look_whether_it_was_stopped(inline: Bench) -> None:
    async with inline.pool() as pool:
        handle = await pool.submit(waits_for_threads, inline.path("x"))
        await until(lambda: inline.lines("x"))
        await pool.cancel(handle.id)
        await until(lambda: len(inline.lines("x")) == 2)


@acode.handler("steps-in-threads")
def steps_in_threads(ctx: acode.SyncContext) -> list[int]:
    with ThreadPoolExecutor(4) as threads:
        return list(threads.map(lambda n: ctx.step(f"step {n}", lambda: n), range(40)))


async def test_a_plain_handler_may_take_steps_in_threads_of_its_own(bench: Bench) -> None:
    async with bench.pool() as pool:
        handle = await pool.submit(steps_in_threads)
        assert await handle.result(timeout=60) == list(range(40))
