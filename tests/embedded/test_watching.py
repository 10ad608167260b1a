"""What a pool tells about itself: statistics, events, and what it costs."""

import asyncio
import gc
import logging
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any

import pytest

import acode
from tests.embedded.conftest import Bench, Program, until


@acode.handler("pause")
async def pause(ctx: acode.Context, seconds: float) -> None:
    await asyncio.sleep(seconds)


@acode.handler("refuse")
async def refuse(ctx: acode.Context) -> None:
    raise acode.PermanentError("no")


@acode.handler("nothing")
async def nothing(ctx: acode.Context, number: int = 0) -> int:
    return number


@pytest.mark.req("lld-03", "lld-22")
async def test_statistics_count_what_happened(bench: Bench) -> None:
    async with bench.pool(workers=2) as pool:
        fresh = pool.stats()
        assert (fresh.workers_count, fresh.active_workers, fresh.queued_tasks) == (2, 0, 0)
        assert (fresh.average_exec_time_ms, fresh.by_type) == (0.0, {})
        handles = await pool.submit_many(pause, [(0.02,)] * 4)
        assert pool.stats().queued_tasks + pool.stats().active_workers <= 4
        await asyncio.gather(*(handle.result() for handle in handles))
        failed = await pool.submit(refuse)
        with pytest.raises(acode.TaskFailed):
            await failed.result()
        await until(lambda: pool.stats().active_workers == 0)
        stats = pool.stats()
    assert (stats.submitted_tasks, stats.completed_tasks, stats.failed_tasks) == (5, 4, 1)
    assert stats.queued_tasks == 0
    assert stats.queue_high_water == 4
    assert stats.by_type["pause"].completed == 4
    assert stats.by_type["pause"].average_ms >= 20
    assert stats.by_type["pause"].longest_ms >= stats.by_type["pause"].average_ms
    assert stats.by_type["refuse"].failed == 1
    assert 0 < stats.average_exec_time_ms < stats.by_type["pause"].longest_ms


@pytest.mark.req("lld-07")
async def test_the_average_is_over_the_last_hundred(inline: Bench) -> None:
    async with inline.pool() as pool:
        await (await pool.submit(pause, 0.2)).result()
        assert pool.stats().average_exec_time_ms >= 200
        handles = await pool.submit_many(nothing, [()] * 99)
        await asyncio.gather(*(handle.result() for handle in handles))
        stats = pool.stats()
        short, long = stats.by_type["nothing"], stats.by_type["pause"]
        among = (99 * short.average_ms + long.average_ms) / 100
        assert stats.average_exec_time_ms == pytest.approx(among), "the long one is among them"
        await (await pool.submit(nothing)).result()
        stats = pool.stats()
        assert stats.average_exec_time_ms == pytest.approx(stats.by_type["nothing"].average_ms)
        assert stats.by_type["pause"].average_ms >= 200


@pytest.mark.req("lld-23")
async def test_the_defaults_are_those_of_a_homelab() -> None:
    async with acode.Pool() as pool:
        assert pool.stats().workers_count == 3
        wanted = pool._wanted
        assert (wanted.queue_size, wanted.task_timeout, wanted.shutdown_timeout) == (100, 300, 30)
        held = await pool.submit_many(pause, [(60,)] * 3)
        await until(lambda: pool.stats().active_workers == 3)
        waiting = await pool.submit_many(nothing, [()] * 100)
        with pytest.raises(acode.QueueFull):
            await pool.submit(nothing)
        assert (await pool.get(held[0].id)).timeout_seconds is None
        for handle in held:
            await pool.cancel(handle.id)
        await asyncio.gather(*(handle.result() for handle in waiting))


async def test_events_tell_everything_and_end_with_the_pool(bench: Bench) -> None:
    async with bench.pool(workers=1) as pool:
        events, other = pool.events(), pool.events()
        done = await pool.submit(nothing)
        await done.result()
        failed = await pool.submit(refuse)
        with pytest.raises(acode.TaskFailed):
            await failed.result()
        await pool.stop()
        told = [event async for event in events]
        assert [event async for event in pool.events()] == []
    about = [event for event in told if event.payload.get("taskId") == done.id]
    about = [event for event in about if event.type.startswith("task.")]
    assert [event.type for event in about] == ["task.added", "task.assigned", "task.completed"]
    (end,) = [event for event in told if event.type == "task.failed"]
    assert end.payload["taskId"] == failed.id
    assert end.payload["error"]["category"] == "permanent"
    assert [event.seq for event in told] == sorted(event.seq for event in told)
    assert len([event async for event in other]) == len(told)


async def test_what_happens_all_the_time_is_logged_while_somebody_debugs(
    inline: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def lines(task_id: str) -> int:
        return sum(task_id in message for message in caplog.messages)

    async with inline.pool() as pool:
        told = []
        for level in (logging.INFO, logging.DEBUG, logging.INFO):
            caplog.set_level(level, "acode.pool")
            handle = await pool.submit(nothing)
            await handle.result()
            told.append(lines(handle.id))
    assert told[0] == told[2] == 0
    assert told[1] > 1


async def test_whoever_comes_back_reads_only_what_happens_then(inline: Bench) -> None:
    async with inline.pool() as pool:
        for _ in range(2):
            reader = pool.events()
            handle = await pool.submit(nothing)
            await handle.result()
            event = await anext(reader)
            assert (event.type, event.payload["taskId"]) == ("task.added", handle.id)
            await reader.aclose()  # type: ignore[attr-defined]  # it is more than it promises
            await (await pool.submit(nothing)).result()


async def test_a_finished_task_costs_no_memory(inline: Bench) -> None:
    """Ten times the tasks do not need more, once a store in memory is as full as it gets."""
    async with inline.pool(queue_size=1000) as pool:

        async def run(count: int) -> None:
            for _ in range(count // 500):
                handles = await pool.submit_many(nothing, [(n,) for n in range(500)])
                await asyncio.gather(*(handle.result() for handle in handles))

        await run(3000)
        gc.collect()
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        await run(6000)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    # A thousand tasks are remembered, with about 2 kB each; six thousand would be 12 MB.
    assert after - before < 4_000_000


def test_importing_acode_loads_nothing_else() -> None:
    text = "import sys, acode; print([name for name in sys.modules if name.startswith('acode.')])"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


LOADED = """
    import asyncio, sys

    UNUSED = ("acode.engine.membership", "acode.embedded.company", "random", "queue", "dataclasses")

    async def main():
        import acode

        @acode.handler("nothing")
        async def nothing(ctx):
            return 1

        async with acode.Pool(isolation="process", workers=1) as pool:
            await (await pool.submit(nothing)).result()
            print([name for name in UNUSED if name in sys.modules])

    asyncio.run(main())
"""


def test_a_pool_loads_nothing_that_it_does_not_use(program: Callable[[str], Program]) -> None:
    """Every process of a pool pays for what its program has loaded."""
    assert program(LOADED).run().strip() == "[]"


def test_everything_public_is_there_documented_and_listed() -> None:
    assert acode.__all__ == sorted(acode.__all__)
    for name in acode.__all__:
        found: Any = getattr(acode, name)
        assert name in dir(acode)
        assert name == "__version__" or found.__doc__, name
    with pytest.raises(AttributeError):
        _ = acode.nonsense


@pytest.mark.req("027-FR-001")
def test_a_pool_has_the_words_of_the_contract() -> None:
    words = ["start", "stop", "submit", "submit_many", "cancel", "get", "scale"]
    assert all(iscoroutinefunction(getattr(acode.Pool, word)) for word in words)
    assert not iscoroutinefunction(acode.Pool.stats)
    assert not iscoroutinefunction(acode.Pool.events)
    assert all(getattr(acode.Pool, word).__doc__ for word in [*words, "stats", "events"])


MEMORY = """
    import asyncio, os, psutil

    def used():
        return psutil.Process().memory_full_info().uss

    async def main():
        await asyncio.sleep(0)
        before = used()
        import acode

        @acode.handler("hold")
        async def hold(ctx):
            await asyncio.sleep(3600)

        async with acode.Pool(shutdown_timeout=0) as pool:
            await pool.submit_many(hold, [()] * 3)
            while pool.stats().active_workers < 3:
                await asyncio.sleep(0.01)
            await pool.submit_many(hold, [()] * 100)
            print(pool.stats().queued_tasks, used() - before, flush=True)
            os._exit(0)

    asyncio.run(main())
"""


@pytest.mark.req("lld-23")
def test_three_workers_and_a_full_queue_take_less_than_20_mb(
    program: Callable[[str], Program],
) -> None:
    waiting, taken = program(MEMORY).run().split()
    assert waiting == "100"
    assert int(taken) < 20_000_000
