"""A grip on a process: wait for its end, signal it, and never mean another one."""

import os
import select
import signal
from types import TracebackType
from typing import Self

from acode.model.worker import ProcessIdentity
from acode.runner.identity import is_alive


class Grip:
    """Holds a process by a descriptor, which a later process of the same pid cannot have."""

    def __init__(self, descriptor: int, process: ProcessIdentity) -> None:
        self._descriptor = descriptor
        self.process = process

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; to nobody if the process is gone."""
        try:
            signal.pidfd_send_signal(self._descriptor, number)
        except ProcessLookupError:
            return

    def ended(self, seconds: float) -> bool:
        """Wait for its end, at most so long, and say whether it has come."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(max(0, round(seconds * 1000))))

    def close(self) -> None:
        """Let go of it."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def grip(process: ProcessIdentity) -> Grip | None:
    """A grip on this very process; None if it has ended."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    if is_alive(process):
        return Grip(descriptor, process)
    os.close(descriptor)
    return None
