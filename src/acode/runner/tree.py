"""Process trees: finding every descendant, and ending them without hitting anybody else."""

import ctypes
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from acode.clock import Deadline
from acode.runner.identity import parent

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)

QUIET_LOOKS = 4
"""So many looks in a row that find nobody new: one may have come just between two generations."""
LATECOMERS = 25
"""Whoever forks and ends all the time is in no list for long enough to be found by it."""
LONGEST_SECONDS = 5.0
"""Whoever is still forking then has more processors than we."""


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


def signal_below(pid: int, number: signal.Signals, spare: Iterable[int] = ()) -> set[int]:
    """Signal every descendant; says who was hit."""
    below = descendants(pid, spare)
    return {child for above, child in below if _signal(above, child, number)}


def kill_below(pid: int, spare: Iterable[int] = ()) -> None:
    """Kill every descendant, however fast they fork."""
    _kill_all(lambda number: signal_below(pid, number, spare))


def _kill_all(strike: Callable[[signal.Signals], set[int]]) -> int:
    """Kill whoever a strike hits; says how many.

    Whoever stands still begins no other process while we go from one to the next.
    """
    deadline = Deadline(LONGEST_SECONDS)
    found: set[int] = set()
    quiet = 0
    while quiet < QUIET_LOOKS and deadline.left() > 0:
        hit = strike(signal.SIGSTOP)
        quiet = quiet + 1 if hit <= found else 0
        found |= hit
    if found:
        strike(signal.SIGKILL)
    return len(found)


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
    return _kill_all(lambda number: _signal_marked(marker, number))


def _signal_marked(marker: bytes, number: signal.Signals) -> set[int]:
    return {pid for pid in _everybody() if _signal_if_marked(pid, marker, number)}


def _everybody() -> Iterator[int]:
    """Who is there; then, a few times, whoever has come last."""
    yield from sorted((int(name) for name in os.listdir("/proc") if name.isdigit()), reverse=True)
    for _ in range(LATECOMERS):
        with open("/proc/loadavg", "rb") as file:
            yield int(file.read().split()[-1])


def _signal_if_marked(pid: int, marker: bytes, number: signal.Signals) -> bool:
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
        signal.pidfd_send_signal(descriptor, number)
    except (ProcessLookupError, PermissionError, FileNotFoundError):
        return False
    else:
        return True
    finally:
        os.close(descriptor)
