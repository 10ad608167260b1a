"""`acode.testing`: everything runs now, on a clock of the test's own."""

import pytest

import acode
from acode.testing import InstantPool, ManualClock

HOUR_MS = 3_600_000


@acode.handler("flaky")
async def flaky(ctx: acode.Context, times: int) -> int:
    if ctx.attempt <= times:
        raise acode.TransientError("not yet", retry_after=3600)
    return ctx.attempt


async def test_delays_and_retries_take_no_time_but_the_clock_tells_of_them() -> None:
    clock = ManualClock()
    begin = clock.now()
    async with InstantPool(clock=clock) as pool:
        handle = await pool.submit(flaky, 2, delay=7200)
        assert await handle.result(timeout=60) == 3
        assert clock.now() - begin == 4 * HOUR_MS
        task = await pool.get(handle.id)
        assert [attempt.started_at - begin for attempt in task.attempts] == [
            2 * HOUR_MS,
            3 * HOUR_MS,
            4 * HOUR_MS,
        ]


async def test_policies_hold_as_ever() -> None:
    async with InstantPool(workers=1) as pool:
        handle = await pool.submit(flaky, 100, retries=2)
        with pytest.raises(acode.TaskFailed):
            await handle.result(timeout=60)
        assert (await pool.get(handle.id)).attempt_count == 3
        assert len(await pool.dead_letters.list()) == 1
