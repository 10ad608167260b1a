"""A command as a local process: start it, feed on its output, end it with everything below it."""

import os
import signal
from collections.abc import Mapping, Sequence
from enum import Enum, auto

from acode.model.ending import Usage
from acode.runner.tree import signal_below

READ_BYTES = 64 * 1024


class Phase(Enum):
    """How far the end has come."""

    RUNNING = auto()
    CLEARING = auto()
    """The command is gone, something below it is not."""
    GONE = auto()


class LocalProcess:
    """One command in a session of its own. Whoever owns it reaps: no other child may exist."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        self.stdout, stdout = os.pipe2(os.O_CLOEXEC)
        self.stderr, stderr = os.pipe2(os.O_CLOEXEC)
        # Our copies of the ends that it writes to stay open: the end of a command is that of its
        # tree, and an end of file would only wake us up twice before it.
        self._pipes = (self.stdout, stdout, self.stderr, stderr)
        try:
            self.pid = os.posix_spawn(
                argv[0],
                list(argv),
                dict(env),
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, stdout, 1),
                    (os.POSIX_SPAWN_DUP2, stderr, 2),
                ],
                setsid=True,
                setsigmask=(),
                setsigdef=_DEFAULTED,
            )
        except OSError:
            self.close()
            raise
        os.set_blocking(self.stdout, False)
        os.set_blocking(self.stderr, False)
        self.phase = Phase.RUNNING
        self.status: int | None = None
        self._cpu_seconds = 0.0
        self._max_memory_bytes = 0

    def reap(self) -> Phase:
        """Collect every child that has ended."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                self.phase = Phase.GONE
                return self.phase
            if pid == 0:
                return self.phase
            self._cpu_seconds += used.ru_utime + used.ru_stime
            self._max_memory_bytes = max(self._max_memory_bytes, used.ru_maxrss * 1024)
            if pid == self.pid:
                self.status = status
                self.phase = Phase.CLEARING

    def signal(self, number: signal.Signals) -> None:
        """Signal the whole tree, those in sessions of their own too."""
        signal_below(os.getpid(), number)

    @property
    def usage(self) -> Usage:
        """What the tree has used so far, as far as it has ended."""
        return Usage(round(self._cpu_seconds, 6), self._max_memory_bytes)

    def close(self) -> None:
        """Let go of the pipes."""
        for descriptor in self._pipes:
            os.close(descriptor)


# Python ignores these; a command expects their default.
_DEFAULTED = (signal.SIGPIPE, signal.SIGXFSZ)


def read_available(descriptor: int) -> bytes:
    """What can be read without waiting."""
    try:
        return os.read(descriptor, READ_BYTES)
    except BlockingIOError:
        return b""
