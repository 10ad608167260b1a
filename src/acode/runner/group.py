"""The control group of one worker's attempts: made once, used for one attempt after the other."""

import os
import threading
from contextlib import suppress
from typing import Final, NamedTuple

from acode.model.ending import Usage
from acode.model.limits import CPU, MEMORY, PROCESSES, AttemptLimits, OverLimitAction
from acode.runner.cgroup import Place, kill_members

PERIOD_US: Final = 100_000
LONG_PERIOD_US: Final = 1_000_000
MIN_QUOTA_US: Final = 1000
"""The kernel takes no smaller quota, so that a tiny share needs a longer period."""
RESIDENTS: Final = 2
"""Threads of the worker that live in its group, so that what they spawn is born there: one for
the group, and one that gives up its rights for each command."""
LUMP_BYTES: Final = 64 * os.sysconf("SC_PAGE_SIZE") * (os.cpu_count() or 1)
"""The kernel counts memory in lumps, one for each processor: less than this it cannot tell."""


class Address(NamedTuple):
    """Where a number is found: controller, file, and the key in it if it holds several."""

    controller: str
    file: str
    key: str = ""


class Dialect(NamedTuple):
    """What one version of control groups calls things."""

    entrance: str
    memory_now: Address
    memory_peak: Address
    oom_kills: Address
    cpu_used: Address
    cpu_unit: float
    throttled: Address
    refused_forks: Address = Address("pids", "pids.events", "max")


V1: Final = Dialect(
    entrance="tasks",
    memory_now=Address("memory", "memory.usage_in_bytes"),
    memory_peak=Address("memory", "memory.max_usage_in_bytes"),
    oom_kills=Address("memory", "memory.oom_control", "oom_kill"),
    cpu_used=Address("cpuacct", "cpuacct.usage"),
    cpu_unit=1e-9,
    throttled=Address("cpu", "cpu.stat", "nr_throttled"),
)
V2: Final = Dialect(
    entrance="cgroup.procs",
    memory_now=Address("memory", "memory.current"),
    memory_peak=Address("memory", "memory.peak"),
    oom_kills=Address("memory", "memory.events", "oom_kill"),
    cpu_used=Address("cpu", "cpu.stat", "usage_usec"),
    cpu_unit=1e-6,
    throttled=Address("cpu", "cpu.stat", "nr_throttled"),
)


class Counters(NamedTuple):
    """What only ever grows; an attempt's part is the difference."""

    oom_kills: int
    refused_forks: int
    throttled: int


class Group:
    """What a worker's attempts run in. Not every controller need be there."""

    def __init__(self, place: Place, worker_id: str) -> None:
        self.directories = place.groups_of(worker_id)
        self._version = place.version
        self._says = V1 if place.version == 1 else V2
        self._files: dict[tuple[str, str], int] = {}
        self._held_to: AttemptLimits | None = None
        self._kept: frozenset[str] = frozenset()
        self._cpu_before = 0
        self._peak_before = 0
        self._forgot = False
        self._counted = Counters(0, 0, 0)
        self._last_words: Counters | None = None
        """What was counted when the attempt was over."""
        self._left: tuple[Counters, int] | None = None
        """The same and its processor time: where the next one begins, without another look."""

    def make(self) -> None:
        """Make the directories; those of a worker before us with the same name will do."""
        for directory in dict.fromkeys(self.directories.values()):
            with suppress(FileExistsError):
                os.mkdir(directory)
        if self._version == 2:
            # One process of a tree is rarely of use without the others.
            self._write("memory", "memory.oom.group", "1")

    def enter(self) -> None:
        """Move the calling thread in (version 1) or its whole process (version 2)."""
        who = str(threading.get_native_id()) if self._version == 1 else "0"
        for directory in dict.fromkeys(self.directories.values()):
            with open(f"{directory}/{self._says.entrance}", "w", encoding="ascii") as file:
                file.write(who)

    @property
    def holds_threads(self) -> bool:
        """Whether a thread can live in it while its process lives elsewhere."""
        return self._version == 1

    # Limits.

    def hold_to(self, limits: AttemptLimits) -> frozenset[str]:
        """Write the limits of the next attempt; says which of them the kernel now enforces."""
        if limits == self._held_to:
            return self._kept
        kept = set()
        if self._limit_processes(limits.max_processes):
            kept.add(PROCESSES)
        if self._limit_memory(limits.memory_bytes if limits.action is _KILL else None):
            kept.add(MEMORY)
        if self._limit_cpu(limits.cpu_percent if limits.action is _THROTTLE else None):
            kept.add(CPU)
        self._held_to, self._kept = limits, frozenset(kept)
        return self._kept

    def _limit_processes(self, count: int) -> bool:
        residents = RESIDENTS if self.holds_threads else 0
        return self._write("pids", "pids.max", str(count + residents))

    def _limit_memory(self, most: int | None) -> bool:
        if self._version == 1:
            value = "-1" if most is None else str(most)
            both = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
            # With swap is never less than without: which one has to move first depends on the way.
            done = self._write("memory", both[0], value)
            swap = self._write("memory", both[1], value)
            done = done or (swap and self._write("memory", both[0], value))
        else:
            done = self._write("memory", "memory.max", "max" if most is None else str(most))
            self._write("memory", "memory.swap.max", "max" if most is None else "0")
        return done and most is not None

    def _limit_cpu(self, percent: float | None) -> bool:
        quota, period = _quota(percent)
        if self._version == 1:
            # The pair must be legal at every step, and no quota goes with every period.
            self._write("cpu", "cpu.cfs_quota_us", "-1")
            self._write("cpu", "cpu.cfs_period_us", str(period))
            done = self._write("cpu", "cpu.cfs_quota_us", quota or "-1")
        else:
            done = self._write("cpu", "cpu.max", f"{quota or 'max'} {period}")
        return done and quota is not None

    # Counting.

    def begin(self) -> None:
        """From here on it is the next attempt's."""
        # Version 1 forgets its peak; in version 2 only a late kernel does, for this descriptor.
        self._forgot = self._write(
            self._says.memory_peak.controller, self._says.memory_peak.file, "0"
        )
        self._peak_before = 0 if self._forgot else self._number(self._says.memory_peak)
        counters, cpu = self._left or (self._counters(), self._number(self._says.cpu_used))
        self._counted, self._cpu_before, self._left = counters, cpu, None
        self._last_words = None

    def usage(self) -> Usage:
        """What the attempt has used since it began; call when its last process is gone."""
        cpu = self._number(self._says.cpu_used)
        if self._last_words is not None:
            self._left = (self._last_words, cpu)
        used = (cpu - self._cpu_before) * self._says.cpu_unit
        return Usage(round(max(0.0, used), 6), self._memory_used())

    def _memory_used(self) -> int:
        """The highest that it was; 0 if that cannot be told."""
        peak = self._number(self._says.memory_peak)
        if peak <= self._peak_before and not self._forgot:
            return 0
        # What is left when nobody is there is cache: it does not count as the attempt's memory.
        return max(peak - self._number(self._says.memory_now), LUMP_BYTES)

    def since_begin(self, *, is_over: bool = False) -> Counters:
        """What the kernel has done to this attempt so far, or all in all."""
        now, begun = self._counters(), self._counted
        if is_over:
            self._last_words = now
        return Counters(
            now.oom_kills - begun.oom_kills,
            now.refused_forks - begun.refused_forks,
            now.throttled - begun.throttled,
        )

    def _counters(self) -> Counters:
        says = self._says
        return Counters(
            self._number(says.oom_kills),
            self._number(says.refused_forks),
            # Nobody is throttled without a quota, and this file is the longest.
            self._number(says.throttled) if CPU in self._kept else self._counted.throttled,
        )

    # The end.

    def kill(self) -> None:
        """Kill everything in it but our own threads; nothing new can be born meanwhile."""
        self._held_to = None
        if self._version == 2 and self._write("pids", "cgroup.kill", "1"):
            return
        self._write("pids", "pids.max", "0")
        for directory in dict.fromkeys(self.directories.values()):
            kill_members(directory)

    def close(self) -> None:
        """Let go of its files; the directories are removed when the worker is gone."""
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()

    # Files.

    def _number(self, address: Address) -> int:
        """A number that the kernel keeps; 0 where there is no such controller or file."""
        try:
            text = os.pread(self._open(address.controller, address.file), 4096, 0)
        except (OSError, KeyError):
            return 0
        if not address.key:
            return int(text)
        return _entry(text, address.key)

    def _write(self, controller: str, file: str, value: str) -> bool:
        """Says whether the kernel has taken it."""
        try:
            os.pwrite(self._open(controller, file), value.encode(), 0)
        except (OSError, KeyError):
            return False
        return True

    def _open(self, controller: str, file: str) -> int:
        known = self._files.get((controller, file))
        if known is None:
            path = f"{self.directories[controller]}/{file}"
            known = self._files[controller, file] = _open_as_far_as_allowed(path)
        return known


_KILL, _THROTTLE = OverLimitAction.KILL, OverLimitAction.THROTTLE


def _quota(percent: float | None) -> tuple[str | None, int]:
    """Quota and period of a share of one core, in microseconds."""
    if percent is None:
        return None, PERIOD_US
    quota = round(percent / 100 * PERIOD_US)
    if quota >= MIN_QUOTA_US:
        return str(quota), PERIOD_US
    return str(max(MIN_QUOTA_US, round(percent / 100 * LONG_PERIOD_US))), LONG_PERIOD_US


def _entry(text: bytes, key: str) -> int:
    """The number of a key in lines of both; 0 if it is not there."""
    _, found, rest = b"\n".join((b"", text)).partition(f"\n{key} ".encode())
    return int(rest.split(maxsplit=1)[0]) if found else 0


def _open_as_far_as_allowed(path: str) -> int:
    """For reading and writing, or whichever of them the file takes."""
    for mode in (os.O_RDWR, os.O_RDONLY):
        with suppress(OSError):
            return os.open(path, mode | os.O_CLOEXEC)
    return os.open(path, os.O_WRONLY | os.O_CLOEXEC)
