"""Process trees: finding every descendant, and ending them without hitting anybody else."""

import ctypes
import os
import signal
from collections.abc import Iterable
from contextlib import suppress

from acode.runner.identity import parent

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """Adopt every orphan among our descendants, so that none can slip away."""
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot become a subreaper")


def die_with_parent(number: int) -> None:
    """Get this signal when our parent ends; 0 is none."""
    if _libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot ask for a signal at the parent's death")


def reap_children() -> None:
    """Take notice of every child that has ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def children(pid: int) -> list[int]:
    """The direct children of a process."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += [int(child) for child in file.read().split()]
    except (FileNotFoundError, ProcessLookupError):
        pass
    return found


def descendants(pid: int, spare: Iterable[int] = ()) -> list[tuple[int, int]]:
    """(parent, child) for everything below a process but the spared ones and theirs."""
    spared = frozenset(spare)
    found: list[tuple[int, int]] = []
    waiting = [pid]
    while waiting:
        above = waiting.pop()
        below = [(above, child) for child in children(above) if child not in spared]
        found += below
        waiting += [child for _, child in below]
    return found


def signal_below(pid: int, number: signal.Signals, spare: Iterable[int] = ()) -> int:
    """Signal every descendant; says how many were hit."""
    return sum(_signal(above, child, number) for above, child in descendants(pid, spare))


def _signal(above: int, child: int, number: signal.Signals) -> bool:
    """Signal a process through a descriptor that cannot mean another one."""
    try:
        descriptor = os.pidfd_open(child)
    except (ProcessLookupError, OSError):
        return False
    try:
        # Between reading the list and opening the descriptor the pid may have been given to a
        # stranger. A stranger has another parent; an orphan of ours has us.
        if parent(child) not in (above, os.getpid()):
            return False
        signal.pidfd_send_signal(descriptor, number)
    except (ProcessLookupError, PermissionError):
        return False
    else:
        return True
    finally:
        os.close(descriptor)


def kill_marked(marker: bytes) -> int:
    """Kill every process whose environment holds the marker: the last net, for orphans."""
    return sum(_kill_if_marked(int(name), marker) for name in os.listdir("/proc") if name.isdigit())


def _kill_if_marked(pid: int, marker: bytes) -> bool:
    if pid == os.getpid():
        return False
    try:
        descriptor = os.pidfd_open(pid)
    except (ProcessLookupError, OSError):
        return False
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            if marker not in file.read().split(b"\0"):
                return False
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except (ProcessLookupError, PermissionError, FileNotFoundError):
        return False
    else:
        return True
    finally:
        os.close(descriptor)
