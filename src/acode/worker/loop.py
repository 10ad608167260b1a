"""A loop over file descriptors, child processes, signals and one timer. No threads, no asyncio."""

import os
import select
import signal
from collections.abc import Callable
from math import inf

from acode.clock import ticks

Handler = Callable[[], object]


class Loop:
    """Calls handlers when something is ready; `deadline` says when to wake up at the latest."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._handlers: dict[int, Handler] = {}
        self._signals: dict[int, Handler] = {}
        self._wakeup, self._wakeup_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(self._wakeup_writer, warn_on_full_buffer=False)
        self.watch(self._wakeup, self._on_signal)
        self.stopped = False

    def watch(self, descriptor: int, handler: Handler) -> None:
        """Call the handler whenever the descriptor can be read or is closed."""
        self._handlers[descriptor] = handler
        self._poll.register(descriptor, select.EPOLLIN)

    def forget(self, descriptor: int) -> None:
        """Watch it no more; call before closing it."""
        if self._handlers.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def on_signal(self, number: int, handler: Handler) -> None:
        """Call the handler from the loop, never in the middle of something."""
        self._signals[number] = handler
        signal.signal(number, _leave_a_note)

    def run_once(self, deadline: float | None) -> None:
        """Wait until something happens or the deadline comes, and handle it."""
        timeout = -1.0 if deadline is None or deadline == inf else max(0.0, deadline - ticks())
        for descriptor, _ in self._poll.poll(timeout):
            # A handler may have closed what an earlier one of this round reported.
            if handler := self._handlers.get(descriptor):
                handler()

    def close(self) -> None:
        """Let go of everything."""
        signal.set_wakeup_fd(-1)
        self._poll.close()
        os.close(self._wakeup)
        os.close(self._wakeup_writer)

    def _on_signal(self) -> None:
        try:
            numbers = os.read(self._wakeup, 4096)
        except BlockingIOError:
            return
        for number in dict.fromkeys(numbers):
            if handler := self._signals.get(number):
                handler()


def _leave_a_note(number: int, frame: object) -> None:
    """The wake-up descriptor carries the number; the loop does the rest."""
