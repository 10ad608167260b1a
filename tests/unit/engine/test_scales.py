"""Memory is weighed without anybody waiting for it."""

import asyncio
import os
import threading
from collections.abc import Iterator

from acode.engine.scales import Scales

LOTS = 1 << 40


class Stubborn:
    """Processes of which one cannot be looked into for a while."""

    def __init__(self) -> None:
        self.yields = threading.Event()

    def __iter__(self) -> Iterator[int]:
        self.yields.wait()
        yield os.getpid()

    def __len__(self) -> int:
        return 1

    def __contains__(self, pid: object) -> bool:
        return pid == os.getpid()


async def test_what_can_be_told_is_told_at_once() -> None:
    found = await Scales().weigh((os.getpid(),), LOTS)
    assert found is not None
    assert found > 1 << 20


async def test_nobody_waits_for_a_process_that_cannot_be_looked_into() -> None:
    scales, stubborn, turns = Scales(), Stubborn(), 0

    async def go_round() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(go_round())
    try:
        assert await scales.weigh(stubborn, LOTS) is None
        assert turns > 1
        # It is not begun anew meanwhile, and what it found counts.
        assert await scales.weigh((), LOTS) is None
        stubborn.yields.set()
        while (found := await scales.weigh((), LOTS)) is None:
            pass
        assert found > 1 << 20
    finally:
        others.cancel()
        stubborn.yields.set()
