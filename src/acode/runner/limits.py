"""Limits that a process hands down to what it starts: rlimits, and who dies first without memory.

There is no limit of address space, which breaks Node and WebAssembly, and none of processes by
user, which counts what the user runs elsewhere.
"""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from acode.model.limits import AttemptLimits, OverLimitAction

OOM_SCORE_ADJ = 500
"""More than any desktop gives its programs: without memory the kernel takes a task first."""
OWN_OPEN_FILES = 64
"""What a worker needs itself, however few files its tasks may open."""


def bounds_of(limits: AttemptLimits) -> dict[int, int]:
    """The rlimits of an attempt."""
    bounds = {resource.RLIMIT_CORE: 0, resource.RLIMIT_NOFILE: limits.max_open_files}
    if limits.action is OverLimitAction.KILL:
        bounds[resource.RLIMIT_FSIZE] = limits.disk_bytes
    return bounds


def bind_for_good(limits: AttemptLimits) -> None:
    """In the child, before it becomes the command."""
    for which, most in bounds_of(limits).items():
        _, hard = resource.getrlimit(which)
        # Core dumps can be asked for again; the other bounds are walls.
        wall = hard if which == resource.RLIMIT_CORE else _least(most, hard)
        resource.setrlimit(which, (_least(most, hard), wall))
    with suppress(OSError), open("/proc/self/oom_score_adj", "r+b", buffering=0) as file:
        if int(file.read()) < OOM_SCORE_ADJ:
            file.write(str(OOM_SCORE_ADJ).encode())


class Inheritance:
    """A worker's own limits, and those that it takes on for a moment to hand them down."""

    def __init__(self, limits: AttemptLimits) -> None:
        """Lower for good what no task needs: what we spawn can never have more than we."""
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wall = _least(max(limits.max_open_files, OWN_OPEN_FILES), hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wall, wall))
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        self._own = {which: resource.getrlimit(which) for which in bounds_of(_STRICTEST)}
        # Kept open: a write costs a twentieth of an open, a write and a close.
        self._oom = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
        self._own_oom = os.read(self._oom, 16).strip()
        self._task_oom = str(max(int(self._own_oom), OOM_SCORE_ADJ)).encode()
        self._known: AttemptLimits | None = None
        self._others: dict[int, tuple[int, int]] = {}
        """What differs from our own under these limits."""

    @contextmanager
    def handed_down(self, limits: AttemptLimits) -> Iterator[None]:
        """What is spawned inside has these limits; afterwards we have our own again."""
        if limits != self._known:
            self._known, self._others = limits, self._differences(limits)
        for which, bounds in self._others.items():
            resource.setrlimit(which, bounds)
        self._write_oom(self._task_oom)
        try:
            yield
        finally:
            self._write_oom(self._own_oom)
            for which in self._others:
                resource.setrlimit(which, self._own[which])

    def _differences(self, limits: AttemptLimits) -> dict[int, tuple[int, int]]:
        found = {}
        for which, most in bounds_of(limits).items():
            soft, hard = self._own[which]
            if soft != (wanted := _least(most, hard)):
                found[which] = (wanted, hard)
        return found

    def _write_oom(self, value: bytes) -> None:
        try:
            os.pwrite(self._oom, value, 0)
        except OSError:
            return  # a container may forbid it

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._oom)


_STRICTEST = AttemptLimits(action=OverLimitAction.KILL)


def _least(most: int, hard: int) -> int:
    return most if hard == resource.RLIM_INFINITY else min(most, hard)
