"""Spawning into a confinement at the price of a thread.

Rights are given up by a thread, not by a process, and a child has those of the thread that spawned
it. So a thread is started, gives up its rights, spawns the command and ends. It must not live any
longer: a command may reach into whatever is confined in the same way as itself.
"""

import _thread
import os
from collections.abc import Callable

from acode.runner import namespaces
from acode.runner.sandbox import Confinement, give_up, kept_capabilities
from acode.runner.syscalls import CLONE_NEWNET, enter_namespace, set_dumpable, unshare


class Airlock:
    """The rules of one confinement, made once and enforced for every command."""

    def __init__(self, confinement: Confinement) -> None:
        self.confinement = confinement
        self._kept = kept_capabilities(confinement.level)
        self._network = -1
        if confinement.network == "none" and namespaces.may_make():
            self._network = _in_thread(_empty_network)
        self._rules = confinement.rules(close_ports=self._network < 0)

    def spawn(self, start: Callable[[], int]) -> int:
        """Start a command that has given up its rights; its pid."""
        # As long as the thread lives, the command could look into our memory through it.
        set_dumpable(False)
        try:
            return _in_thread(lambda: self._start(start))
        finally:
            set_dumpable(True)

    def _start(self, start: Callable[[], int]) -> int:
        if self._network >= 0:
            enter_namespace(self._network, CLONE_NEWNET)
        give_up(self._rules, self._kept, self.confinement.level)
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


def _in_thread(action: Callable[[], int]) -> int:
    """What an action in a thread of its own gives, when that thread is gone."""
    result: list[int | Exception] = []
    ids: list[int] = []
    done = _thread.allocate_lock()
    done.acquire()

    def run() -> None:
        ids.append(_thread.get_native_id())
        try:
            result.append(action())
        except Exception as error:  # raised again where it is expected
            result.append(error)
        finally:
            done.release()

    _thread.start_new_thread(run, ())
    done.acquire()
    while os.path.exists(f"/proc/self/task/{ids[0]}"):
        os.sched_yield()
    value = result[0]
    if isinstance(value, Exception):
        raise value
    return value
