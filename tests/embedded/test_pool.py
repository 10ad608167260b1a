"""The pool as its users see it: submit, results, bounds, order, end."""

import asyncio
import time
from dataclasses import dataclass
from os.path import exists
from typing import Any

import msgspec
import pytest

import acode
from tests.embedded.conftest import Bench, note, until


@acode.handler("double")
async def double(ctx: acode.Context, number: int) -> int:
    return 2 * number


@acode.handler("double-in-a-thread")
def double_in_a_thread(ctx: acode.SyncContext, number: int) -> int:
    return 2 * number


@acode.handler("hold")
async def hold(ctx: acode.Context, path: str, name: str = "") -> str:
    """Begins, says so, and goes on until a file is there."""
    note(f"{path}.began", name)
    await until(lambda: exists(f"{path}.go"), 3600)
    return name


@acode.handler("write")
def write(ctx: acode.SyncContext, path: str, text: str) -> None:
    note(path, text)


def let_go(bench: Bench, name: str) -> None:
    (bench.place / f"{name}.go").touch()


async def holding(bench: Bench, pool: acode.Pool, name: str, **options: Any) -> Any:
    """A task that has begun and goes on until `let_go`."""
    handle = await pool.submit(hold, bench.path(name), name, **options)
    await until(lambda: bench.lines(f"{name}.began"))
    return handle


@pytest.mark.req("lld-01")
async def test_a_task_is_submitted_and_its_result_comes_back(bench: Bench) -> None:
    async with bench.pool() as pool:
        handle = await pool.submit(double, 21)
        assert await handle.result(timeout=60) == 42
        assert await handle.result() == 42
        assert await (await pool.submit("double-in-a-thread", 4)).result(timeout=60) == 8
        task = await pool.get(handle.id)
    assert (task.status, task.type, task.args, task.result) == ("completed", "double", (21,), 42)
    assert task.attempt_count == 1


@pytest.mark.req("lld-01")
async def test_starting_and_stopping_is_forgiving(bench: Bench) -> None:
    pool = acode.Pool(store=bench.url, isolation=bench.kind.isolation)  # type: ignore[arg-type]
    await pool.start()
    await pool.start()
    assert pool.stats().workers_count == 3
    await pool.stop()
    await pool.stop()
    with pytest.raises(acode.PoolStopped):
        await pool.submit(double, 1)
    with pytest.raises(acode.PoolStopped):
        await pool.start()
    never = acode.Pool()
    with pytest.raises(acode.PoolStopped):
        await never.submit(double, 1)
    await never.stop()


@pytest.mark.req("lld-02")
async def test_a_task_has_an_id_a_type_and_something_to_execute(in_memory: Bench) -> None:
    async with in_memory.pool() as pool:
        handle = await pool.submit(double, 1)
        assert len(handle.id) == 26
        await handle.result()
        task = await pool.get(handle.id)
        assert (task.id, task.type, task.args) == (handle.id, "double", (1,))
        with pytest.raises(acode.TaskNotFound):
            await pool.get("01AAAAAAAAAAAAAAAAAAAAAAAA")


async def test_many_are_submitted_in_one_write(bench: Bench) -> None:
    async with bench.pool(queue_size=500) as pool:
        handles = await pool.submit_many(double, [(n,) for n in range(300)], priority="low")
        assert [await handle.result() for handle in handles] == [2 * n for n in range(300)]
        assert pool.stats().completed_tasks == 300


async def test_as_many_run_at_once_as_there_are_workers(bench: Bench) -> None:
    async with bench.pool(workers=3) as pool:
        held = [await holding(bench, pool, f"held{n}") for n in range(3)]
        fourth = await pool.submit(hold, bench.path("fourth"), "fourth")
        assert pool.stats().active_workers == 3
        assert pool.stats().queued_tasks == 1
        assert not bench.lines("fourth.began")
        let_go(bench, "held1")
        await until(lambda: bench.lines("fourth.began"))
        for name in ("held0", "held2", "fourth"):
            let_go(bench, name)
        assert [await handle.result() for handle in (*held, fourth)][-1] == "fourth"


@pytest.mark.req("lld-04")
async def test_a_full_queue_refuses_at_once(bench: Bench) -> None:
    async with bench.pool(workers=1, queue_size=2) as pool:
        held = await holding(bench, pool, "held")
        waiting = [await pool.submit(double, n) for n in range(2)]
        with pytest.raises(acode.QueueFull, match="2 tasks wait and the queue holds 2"):
            await pool.submit(double, 3)
        with pytest.raises(acode.QueueFull):
            await pool.submit_many(double, [(3,), (4,)])
        let_go(bench, "held")
        await held.result()
        assert [await handle.result() for handle in waiting] == [0, 2]
        assert await (await pool.submit(double, 3)).result() == 6


@pytest.mark.req("lld-04")
async def test_a_submit_that_is_cancelled_says_so_and_leaves_no_task(on_disk: Bench) -> None:
    async with on_disk.pool(workers=1) as pool:
        held = await holding(on_disk, pool, "held")
        submitting = asyncio.create_task(pool.submit(write, on_disk.path("written"), "late"))
        await asyncio.sleep(0)
        submitting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await submitting
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(-1):
                await pool.submit(write, on_disk.path("written"), "later")
        let_go(on_disk, "held")
        await held.result()
        await (await pool.submit(write, on_disk.path("written"), "last")).result()
    assert on_disk.lines("written") == ["last"]


@pytest.mark.req("lld-11")
async def test_the_most_urgent_comes_first_and_equals_in_turn(bench: Bench) -> None:
    async with bench.pool(workers=1) as pool:
        held = await holding(bench, pool, "held")
        handles = [
            await pool.submit(write, bench.path("order"), f"{priority}{n}", priority=priority)
            for n in range(2)
            for priority in ("background", "low", "medium", "high")
        ]
        let_go(bench, "held")
        await asyncio.gather(held.result(), *(handle.result() for handle in handles))
    wanted = [f"{p}{n}" for p in ("high", "medium", "low", "background") for n in range(2)]
    assert bench.lines("order") == wanted


async def test_a_delayed_task_waits(in_memory: Bench) -> None:
    async with in_memory.pool() as pool:
        handle = await pool.submit(double, 1, delay=0.2)
        task = await pool.get(handle.id)
        assert (task.ready_at - task.created_at).total_seconds() == 0.2
        await handle.result()
        task = await pool.get(handle.id)
    assert task.started_at is not None
    assert task.started_at >= task.ready_at


async def test_a_key_makes_submitting_safe_to_repeat(bench: Bench) -> None:
    async with bench.pool() as pool:
        first = await pool.submit(write, bench.path("written"), "once", key="one")
        second = await pool.submit(write, bench.path("written"), "twice", key="one")
        assert first.id == second.id
        await second.result()
        third = await pool.submit(write, bench.path("written"), "thrice", key="one")
        assert await third.result() is None
        assert pool.stats().submitted_tasks == 1
    assert bench.lines("written") == ["once"]


@pytest.mark.req("lld-05")
async def test_stop_waits_for_what_runs(bench: Bench) -> None:
    async with bench.pool(workers=1) as pool:
        held = await holding(bench, pool, "held")
        waiting = await pool.submit(write, bench.path("written"), "never")
        stopping = asyncio.create_task(pool.stop(timeout=60))
        await asyncio.sleep(0.05)
        assert not stopping.done()
        with pytest.raises(acode.PoolStopped):
            await pool.submit(double, 1)
        let_go(bench, "held")
        await stopping
        assert await held.result() == "held"
        with pytest.raises(acode.PoolStopped):
            await waiting.result()
    assert not bench.lines("written")


@pytest.mark.req("lld-05")
async def test_a_stop_that_takes_too_long_names_the_tasks(bench: Bench) -> None:
    pool = acode.Pool(workers=2, store=bench.url, isolation=bench.kind.isolation)  # type: ignore[arg-type]
    await pool.start()
    held = await holding(bench, pool, "held")
    with pytest.raises(acode.DrainTimeout, match=held.id) as caught:
        await pool.stop(timeout=0.05)
    assert caught.value.task_ids == (held.id,)
    with pytest.raises(acode.PoolStopped):
        await held.result()


async def test_what_waits_in_a_durable_store_is_run_by_the_next_pool(on_disk: Bench) -> None:
    pool = acode.Pool(workers=1, store=on_disk.url, isolation=on_disk.kind.isolation)  # type: ignore[arg-type]
    await pool.start()
    held = await holding(on_disk, pool, "held")
    waiting = await pool.submit(write, on_disk.path("written"), "later")
    with pytest.raises(acode.DrainTimeout):
        await pool.stop(timeout=0.05)
    let_go(on_disk, "held")
    async with on_disk.pool() as again:
        assert await again.handle(held.id).result() == "held"
        await again.handle(waiting.id).result()
        released = await again.get(held.id)
    assert on_disk.lines("written") == ["later"]
    assert released.attempt_count == 1, "a released attempt does not count"
    assert [attempt.number for attempt in released.attempts] == [1, 2]


@pytest.mark.req("lld-06")
async def test_an_attempt_ends_when_its_time_is_up(bench: Bench) -> None:
    async with bench.pool(task_timeout=0.1, workers=1) as pool:
        late = await pool.submit(hold, bench.path("held"), retries=0)
        with pytest.raises(acode.TaskTimeout) as caught:
            await late.result()
        assert isinstance(caught.value, acode.TaskFailed)
        assert caught.value.failure.code == "TIMEOUT"
        assert await (await pool.submit(double, 1)).result() == 2
        patient = await pool.submit(hold, bench.path("other"), timeout=60)
        await until(lambda: bench.lines("other.began"))
        let_go(bench, "other")
        assert await patient.result() == ""


@acode.handler("clean-up")
async def clean_up(ctx: acode.Context, path: str) -> None:
    try:
        note(path, "began")
        await asyncio.sleep(3600)
    finally:
        await asyncio.sleep(0)
        note(path, "cleaned up")


@pytest.mark.req("lld-06")
async def test_a_handler_may_clean_up_when_its_time_is_up(bench: Bench) -> None:
    async with bench.pool() as pool:
        late = await pool.submit(clean_up, bench.path("written"), timeout=0.1, retries=0)
        with pytest.raises(acode.TaskTimeout):
            await late.result()
    assert bench.lines("written") == ["began", "cleaned up"]


@acode.handler("sleep-in-a-thread")
def sleep_in_a_thread(ctx: acode.SyncContext, path: str, seconds: float) -> None:
    note(path, "began")
    time.sleep(seconds)
    ctx.step("after", note, path, "went on")


async def test_a_thread_that_does_not_listen_is_left_behind(inline: Bench) -> None:
    async with inline.pool(workers=1) as pool:
        late = await pool.submit(
            sleep_in_a_thread, inline.path("written"), 2, timeout=0.05, retries=0
        )
        with pytest.raises(acode.TaskTimeout):
            await late.result()
        assert await (await pool.submit("double-in-a-thread", 1)).result() == 2
        await asyncio.sleep(1.2)
    assert inline.lines("written") == ["began"], "nothing is kept for an attempt that is over"


async def test_cancelling_ends_what_runs_and_removes_what_waits(bench: Bench) -> None:
    async with bench.pool(workers=1) as pool:
        held = await pool.submit(clean_up, bench.path("written"))
        await until(lambda: bench.lines("written"))
        waiting = await pool.submit(double, 1)
        await pool.cancel(waiting.id)
        await pool.cancel(held.id)
        for handle in (held, waiting):
            with pytest.raises(acode.TaskCancelled):
                await handle.result(timeout=60)
            assert (await pool.get(handle.id)).status == "cancelled"
        assert await (await pool.submit(double, 2)).result() == 4
        assert pool.stats().queued_tasks == 0
    assert bench.lines("written") == ["began", "cleaned up"]


async def test_waiting_for_a_result_can_time_out_without_harm(in_memory: Bench) -> None:
    async with in_memory.pool() as pool:
        held = await holding(in_memory, pool, "held")
        with pytest.raises(acode.TaskTimeout) as caught:
            await held.result(timeout=0.01)
        assert not isinstance(caught.value, acode.TaskFailed)
        let_go(in_memory, "held")
        assert await held.result() == "held"


async def test_the_pool_can_grow_and_shrink(in_memory: Bench) -> None:
    async with in_memory.pool(workers=1) as pool:
        await pool.scale(3)
        assert pool.stats().workers_count == 3
        held = [await holding(in_memory, pool, f"held{n}") for n in range(3)]
        await pool.scale(1)
        assert pool.stats().workers_count == 1
        for n in range(3):
            let_go(in_memory, f"held{n}")
        await asyncio.gather(*(handle.result() for handle in held))
        assert await (await pool.submit(double, 1)).result() == 2
        await until(lambda: pool.stats().active_workers == 0)
        with pytest.raises(ValueError, match="at least 1 worker"):
            await pool.scale(0)


@dataclass
class Point:
    x: int
    y: int


class Size(msgspec.Struct):
    width: int


@acode.handler("grow")
async def grow(ctx: acode.Context, points: list[Point], by: Size) -> Point:
    assert all(isinstance(point, Point) for point in points)
    return Point(sum(point.x for point in points), by.width)


async def test_dataclasses_and_structs_go_in_and_come_out(in_memory: Bench) -> None:
    async with in_memory.pool() as pool:
        handle = await pool.submit(grow, [Point(1, 2), Point(3, 4)], Size(5))
        assert await handle.result() == Point(4, 5)
        assert (await pool.get(handle.id)).result == {"x": 4, "y": 5}


@acode.handler("returns-an-object")
async def returns_an_object(ctx: acode.Context) -> object:
    return object()


async def test_what_is_no_json_value_is_refused(in_memory: Bench) -> None:
    async with in_memory.pool() as pool:
        for value in (object(), {1, 2}, b"bytes", float("nan"), {1: 2}, 1 << 70, "\ud800", Point):
            with pytest.raises(acode.InvalidTask) as caught:
                await pool.submit(double, value)
            assert caught.value.code == "INVALID_TASK"
        for wrong in ((), (1, 2)):
            with pytest.raises(acode.InvalidTask, match="takes 1 arguments"):
                await pool.submit(double, *wrong)
        with pytest.raises(acode.InvalidTask, match="no handler"):
            await pool.submit(len, "text")
        for option in ({"priority": "urgent"}, {"retries": -1}, {"delay": -1}, {"timeout": 0}):
            with pytest.raises(acode.InvalidTask):
                await pool.submit(double, 1, **option)  # type: ignore[arg-type]
        failed = await pool.submit(returns_an_object)
        with pytest.raises(acode.TaskFailed, match="no JSON value"):
            await failed.result()
        assert pool.stats().submitted_tasks == 1


async def test_a_handler_that_nobody_knows_fails_for_good(in_memory: Bench) -> None:
    async with in_memory.pool() as pool:
        unknown = await pool.submit("nobody", 1)
        with pytest.raises(acode.TaskFailed, match="no handler is called nobody") as caught:
            await unknown.result()
        assert caught.value.failure.code == "INVALID_TASK"
        by_path = await pool.submit("tests.embedded.by_path:triple", 2)
        assert await by_path.result() == 6


async def test_two_pools_work_side_by_side_and_a_file_belongs_to_one(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/queue.db"
    async with acode.Pool(store=url) as one, acode.Pool(isolation="process") as two:
        with pytest.raises(acode.AcodeError, match="another pool works on"):
            await acode.Pool(store=url).start()
        handles = [await pool.submit(double, n) for n in range(5) for pool in (one, two)]
        assert [await handle.result() for handle in handles[::2]] == [0, 2, 4, 6, 8]
        assert [await handle.result() for handle in handles[1::2]] == [0, 2, 4, 6, 8]
    async with acode.Pool(store=url) as again:
        assert await again.handle(handles[0].id).result() == 0


async def test_a_pool_that_is_made_wrongly_says_so() -> None:
    for options in (
        {"isolation": "thread"},
        {"workers": 0},
        {"queue_size": 0},
        {"task_timeout": 0},
    ):
        with pytest.raises(acode.AcodeError):
            acode.Pool(**options)  # type: ignore[arg-type]
    for store in ("redis://", "sqlite:///", "queue.db"):
        with pytest.raises(acode.AcodeError, match="not understood"):
            await acode.Pool(store=store).start()


async def test_handlers_do_not_share_context_variables(inline: Bench) -> None:
    from contextvars import ContextVar

    variable: ContextVar[str] = ContextVar("variable", default="fresh")

    @acode.handler("set-it")
    async def set_it(ctx: acode.Context) -> str:
        before = variable.get()
        variable.set("used")
        return before

    @acode.handler("set-it-in-a-thread")
    def set_it_in_a_thread(ctx: acode.SyncContext) -> str:
        before = variable.get()
        variable.set("used")
        return before

    async with inline.pool(workers=1) as pool:
        for handler in (set_it, set_it_in_a_thread):
            handles = await pool.submit_many(handler, [()] * 3)
            assert [await handle.result() for handle in handles] == ["fresh"] * 3
