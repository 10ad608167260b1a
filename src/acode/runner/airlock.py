"""Spawning into a confinement at the price of a thread.

Rights are given up by a thread, not by a process, and a child has those of the thread that spawned
it. So a thread is made that gives up its rights, spawns the command and ends. It must not live any
longer: a command may reach into whatever is confined in the same way as itself.
"""

import os
from collections.abc import Callable

from acode.runner import namespaces
from acode.runner.cell import Cell
from acode.runner.sandbox import Confinement, forgo, give_up, kept_capabilities
from acode.runner.syscalls import CLONE_NEWNET, enter_namespace, set_dumpable, unshare


class Airlock:
    """The rules of one confinement, made once and enforced for every command."""

    def __init__(self, confinement: Confinement, cell: Cell) -> None:
        self.confinement = confinement
        self._cell = cell
        # Not for every command: the kernel translates the filter each time that it is given one.
        cell.once(forgo, confinement.level)
        self._kept = kept_capabilities(confinement.level)
        self._network = -1
        if confinement.network == "none" and namespaces.may_make():
            self._network = cell.spend(_empty_network)
        self._rules = confinement.rules(close_ports=self._network < 0)

    def spawn(self, start: Callable[[], int]) -> int:
        """Start a command that has given up its rights; its pid."""
        # As long as the thread lives, the command could look into our memory through it.
        set_dumpable(False)
        return self._cell.spend(lambda: self._start(start))

    def reopen(self) -> None:
        """Let others look at us again, as nobody here is confined any more."""
        self._cell.bury()
        set_dumpable(True)

    def _start(self, start: Callable[[], int]) -> int:
        if self._network >= 0:
            enter_namespace(self._network, CLONE_NEWNET)
        give_up(self._rules, self._kept)
        return start()

    def close(self) -> None:
        """Let go of the rules."""
        if self._rules is not None:
            self._rules.close()
        if self._network >= 0:
            os.close(self._network)


def _empty_network() -> int:
    unshare(CLONE_NEWNET)
    namespaces.raise_loopback()
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
