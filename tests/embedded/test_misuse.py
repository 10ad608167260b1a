"""What a pool says to whoever uses it wrongly."""

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import pytest

import acode
from acode.errors import ConfigError
from tests.embedded.conftest import Bench, Program, until


@acode.handler("repeat-it")
async def repeat_it(ctx: acode.Context, value: Any) -> Any:
    return value


async def test_an_option_that_there_is_not_is_refused(inline: Bench) -> None:
    async with inline.pool() as pool:
        with pytest.raises(acode.InvalidTask, match="no option prority") as caught:
            await pool.submit(repeat_it, 1, prority="high")  # type: ignore[call-overload]
        assert "priority" in caught.value.hint
        assert pool.stats().submitted_tasks == 0


async def test_a_function_that_gets_another_name_is_submitted_by_that(inline: Bench) -> None:
    async def echo(ctx: acode.Context) -> str:
        return ctx.type

    async with inline.pool() as pool:
        for name in ("echo-once", "echo-again"):
            handle = await pool.submit(acode.handler(name)(echo))
            assert await handle.result(timeout=60) == name


@pytest.mark.parametrize("arguments", [[1, 2], ["ab"], ["c"], [None], [{"a": 1}]])
async def test_every_call_of_many_needs_a_tuple(inline: Bench, arguments: list[Any]) -> None:
    async with inline.pool() as pool:
        with pytest.raises(acode.InvalidTask, match="is no tuple of arguments"):
            await pool.submit_many(repeat_it, arguments)
        (handle,) = await pool.submit_many(repeat_it, [["a list will do"]])
        assert await handle.result(timeout=60) == "a list will do"


@pytest.mark.parametrize(
    "options", [{"workers": "3"}, {"workers": 2.5}, {"queue_size": 10.0}, {"task_timeout": "1"}]
)
def test_a_pool_of_something_else_than_numbers_is_refused(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(ConfigError, match=f"{name} is a number, not"):
        acode.Pool(**options)


@pytest.mark.parametrize("workers", [0, -1, 1.5, "3", None])
async def test_a_pool_cannot_get_a_size_that_is_none(inline: Bench, workers: Any) -> None:
    async with inline.pool() as pool:
        with pytest.raises(ValueError, match="at least 1 worker"):
            await pool.scale(workers)


@acode.handler("takes-for-ever")
async def takes_for_ever(ctx: acode.Context) -> None:
    await asyncio.sleep(3600)


async def test_an_error_of_the_program_is_not_lost_because_tasks_still_ran(inline: Bench) -> None:
    async def fail() -> None:
        async with inline.pool(shutdown_timeout=0.01) as pool:
            await pool.submit(takes_for_ever)
            await until(lambda: pool.stats().active_workers)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        await fail()
    assert "1 tasks did not end" in "".join(caught.value.__notes__)


INTERRUPTED = """
    import asyncio, os, signal, sys
    import acode

    @acode.handler("slow")
    async def slow(ctx):
        await asyncio.sleep(3600)

    async def main():
        async with acode.Pool(isolation=sys.argv[1], shutdown_timeout=0.01) as pool:
            await pool.submit(slow)
            while not pool.stats().active_workers:
                await asyncio.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(3600)

    asyncio.run(main())
"""


@pytest.mark.parametrize("isolation", ["inline", "process"])
def test_a_program_that_is_interrupted_ends_as_such(
    program: Callable[[str], Program], isolation: str
) -> None:
    interrupted = program(INTERRUPTED).start(isolation)
    interrupted.communicate(timeout=60)
    assert interrupted.returncode == -signal.SIGINT
