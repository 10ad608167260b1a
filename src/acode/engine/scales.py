"""Weighing what may take long to be looked at, without anybody waiting for it."""

import asyncio
from collections.abc import Collection, Iterator

from acode.clock import Deadline
from acode.runner.usage import exact_memory

PATIENCE_SECONDS = 0.2
"""To look into a process takes a millisecond, unless it forks all the time or hangs in the kernel:
then whoever looks hangs with it."""
LONGEST_SECONDS = 10.0
"""Whoever could not be looked into by then is left out."""


class Scales:
    """Finds out what the processes of one attempt use together."""

    def __init__(self) -> None:
        self._weighing: asyncio.Future[int] | None = None

    async def weigh(self, pids: Collection[int], enough: int) -> int | None:
        """Their memory, or at least that it is more than enough; None if it takes longer."""
        if self._weighing is None:
            loop = asyncio.get_running_loop()
            try:
                self._weighing = loop.run_in_executor(None, exact_memory, _in_time(pids), enough)
            except RuntimeError:
                return None  # the machine has no thread left
        await asyncio.wait([self._weighing], timeout=PATIENCE_SECONDS)
        if not self._weighing.done():
            return None
        found, self._weighing = self._weighing.result(), None
        return found


def _in_time(pids: Collection[int]) -> Iterator[int]:
    deadline = Deadline(LONGEST_SECONDS)
    for pid in pids:
        if deadline.left() < 0:
            return
        yield pid
