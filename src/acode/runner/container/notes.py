"""Signals to a stand-in, to be read when there is time for them."""

import os
import signal
from contextlib import suppress


class Notes:
    """Whoever asks us to end means the command whose place we take."""

    def __init__(self) -> None:
        self.descriptor, notes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCONT):
            signal.signal(number, lambda _number, _frame: None)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.set_wakeup_fd(notes, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def asks_to_end(self) -> bool:
        """Whether we were asked to since the last look."""
        with suppress(BlockingIOError):
            return bool(set(os.read(self.descriptor, 4096)) - {signal.SIGCONT})
        return False
