"""What process trees use: one pass over /proc for all of them."""

import os
from collections.abc import Mapping

from acode.clock import ticks

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Sampler:
    """Remembers the last sample, because a share of the processor is a difference."""

    def __init__(self) -> None:
        self._cpu: dict[str, float] = {}
        self._at = ticks()

    def sample(self, roots: Mapping[str, int]) -> dict[str, dict[str, float]]:
        """CPU percent of one core and memory of each tree, by the name of its root."""
        now = ticks()
        seconds, self._at = max(now - self._at, 1e-3), now
        trees = _trees(roots)
        before, self._cpu = self._cpu, {name: cpu for name, (cpu, _) in trees.items()}
        return {
            name: {
                "cpuPercent": round(max(0.0, cpu - before.get(name, cpu)) / seconds * 100, 1),
                "memoryBytes": memory,
                "diskBytes": 0,
            }
            for name, (cpu, memory) in trees.items()
        }


def _trees(roots: Mapping[str, int]) -> dict[str, tuple[float, int]]:
    parents: dict[int, int] = {}
    used: dict[int, tuple[float, int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := _stat(int(name))) is not None:
            parents[int(name)], *rest = stat
            used[int(name)] = (rest[0], int(rest[1]))
    totals = dict.fromkeys(roots, (0.0, 0))
    owners = {pid: name for name, pid in roots.items()}
    for pid, (cpu, memory) in used.items():
        owner = _owner(pid, parents, owners)
        if owner is not None:
            totals[owner] = (totals[owner][0] + cpu, totals[owner][1] + memory)
    return totals


def _owner(pid: int, parents: Mapping[int, int], owners: Mapping[int, str]) -> str | None:
    while pid in parents:
        if pid in owners:
            return owners[pid]
        pid = parents[pid]
    return None


def _stat(pid: int) -> tuple[int, float, int] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    cpu = (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND
    return int(fields[1]), cpu, int(fields[21]) * _PAGE_BYTES
