"""Notices that a handler blocks the event loop, which nothing inside that loop can notice."""

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress

_logger = logging.getLogger("acode.pool")
LINES = 3
"""How much of the stack is told."""

OnStall = Callable[[float], None]


class Watchdog:
    """A thread that asks the loop for a sign of life; says so in the log if there is none."""

    def __init__(self, seconds: float, on_stall: OnStall) -> None:
        self._seconds = seconds
        self._on_stall = on_stall
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="acode-watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Watch no more."""
        self._stopped.set()

    def _run(self) -> None:
        with suppress(RuntimeError):  # the loop is gone
            while not self._stopped.wait(self._seconds / 2):
                alive = threading.Event()
                self._loop.call_soon_threadsafe(alive.set)
                if not alive.wait(self._seconds):
                    self._tell()
                    alive.wait()

    def _tell(self) -> None:
        frame = sys._current_frames().get(self._loop_thread)
        where = "".join(traceback.format_stack(frame)[-LINES:]) if frame else ""
        _logger.error("the event loop is blocked since %g s:\n%s", self._seconds, where)
        # Told inside the loop as well, once it turns again.
        self._loop.call_soon_threadsafe(self._on_stall, self._seconds)
