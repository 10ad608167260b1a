"""What process trees use: one pass over /proc for all of them."""

import os
from collections.abc import Collection, Iterable, Mapping
from math import inf
from typing import NamedTuple

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
OWN_MEMORY_PASSES = 30
"""Workers hardly change: the memory of each is looked at exactly once in so many passes."""


class TreeUse(NamedTuple):
    """What a worker and everything below it use at one moment."""

    cpu_seconds: float
    """Since the worker was born; what has ended and was waited for included."""
    own_bytes: int
    """Memory of the worker itself, without what it shares with others."""
    memory_bytes: int
    """Resident memory of everything below it."""
    pids: tuple[int, ...]
    """The processes below it."""


class _Stat(NamedTuple):
    parent: int
    cpu_ticks: int
    pages: int
    ended: bool


class Sampler:
    """Remembers what need not be looked at in every pass."""

    def __init__(self) -> None:
        self._passes = 0
        self._own: dict[int, int] = {}

    def sample(self, roots: Mapping[str, int]) -> dict[str, TreeUse]:
        """What each tree uses, by the name of its root; trees that are gone are left out."""
        stats = _all_stats()
        self._look_at_some([pid for pid in roots.values() if pid in stats])
        owners = {pid: name for name, pid in roots.items()}
        below: dict[str, list[int]] = {name: [] for name, pid in roots.items() if pid in stats}
        for pid in stats:
            owner = _owner(pid, stats, owners)
            if owner is not None and owner in below and pid != roots[owner]:
                below[owner].append(pid)
        return {name: self._use(roots[name], pids, stats) for name, pids in below.items()}

    def _look_at_some(self, pids: Collection[int]) -> None:
        self._passes += 1
        self._own = {pid: self._own[pid] for pid in pids if pid in self._own}
        for pid in pids:
            if pid not in self._own or (pid + self._passes) % OWN_MEMORY_PASSES == 0:
                self._own[pid] = exact_memory((pid,))

    def _use(self, root: int, pids: list[int], stats: Mapping[int, _Stat]) -> TreeUse:
        cpu = sum(stats[pid].cpu_ticks for pid in (root, *pids))
        alive = tuple(pid for pid in pids if not stats[pid].ended)
        memory = sum(stats[pid].pages for pid in alive) * _PAGE_BYTES
        return TreeUse(cpu / _TICKS_PER_SECOND, self._own[root], memory, alive)


def _owner(pid: int, stats: Mapping[int, _Stat], owners: Mapping[int, str]) -> str | None:
    while pid in stats:
        if pid in owners:
            return owners[pid]
        pid = stats[pid].parent
    return None


def _all_stats() -> dict[int, _Stat]:
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := _stat(name)) is not None:
            found[int(name)] = stat
    return found


def _stat(pid: str) -> _Stat | None:
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # The name is in parentheses and may hold anything, parentheses too.
        fields = os.read(descriptor, 1024).rpartition(b")")[2].split(None, 23)
    except ProcessLookupError:
        return None
    finally:
        os.close(descriptor)
    # Its own time and that of the children it has waited for: nothing is lost, nothing twice.
    cpu = int(fields[11]) + int(fields[12]) + int(fields[13]) + int(fields[14])
    return _Stat(int(fields[1]), cpu, int(fields[21]), fields[0] in b"ZX")


def exact_memory(pids: Iterable[int], enough: float = inf) -> int:
    """Memory of processes, with what they share divided among those who share it.

    Dear: the kernel walks through all their pages, and lets nobody look while a process forks. So
    it is not looked further than to more than what is enough.
    """
    total = 0
    for pid in pids:
        total += _shared_fairly(pid)
        if total > enough:
            break
    return total


def _shared_fairly(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass  # gone, or not ours to look into
    return 0
