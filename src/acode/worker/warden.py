"""Holds one attempt to its limits while it runs, and says what they had to do with its end."""

import resource
import signal
from math import inf
from typing import Protocol

from acode.clock import Clock, ticks
from acode.model.ending import Ending, Exited, OverLimit, Signalled, Usage
from acode.model.limits import (
    CPU,
    DISK,
    MEGABYTE,
    MEMORY,
    PROCESSES,
    AttemptLimits,
    Over,
    OverLimitAction,
)
from acode.policy.limits import Sampled, action_on, overs
from acode.runner.disk import DiskWalk, free_bytes
from acode.worker.bounds import Bounds

CHECK_SECONDS = 1.0
LONGEST_CHECK_SECONDS = 4.0
AGE_SHARE = 0.2
"""Whoever has behaved for long is looked at less often: waking up costs more than looking."""
DISK_SHARE = 50
"""Looking at the disk may take one part in so many of the time."""
WALK_SECONDS = 10.0
"""How often it is done at least."""
PERIOD_SECONDS = 0.25
"""How long a turn takes of running and standing still."""
LEAST_DUTY = 0.02


class Held(Protocol):
    """The attempt, as its warden sees it."""

    def on_remark(self, tag: str, text: str) -> None:
        """Something that belongs into the task's log."""
        ...

    def on_over_limit(self, over: Over, action: OverLimitAction) -> None:
        """Tell the daemon."""
        ...

    def end_over_limit(self, ending: OverLimit) -> None:
        """End the attempt at once."""
        ...

    def signal(self, number: signal.Signals) -> None:
        """Signal whatever runs."""
        ...


class Warden:
    """Wakes up every second at first; a command that is quicker never sees it."""

    def __init__(
        self,
        limits: AttemptLimits,
        bounds: Bounds,
        directories: tuple[str, ...],
        held: Held,
        clock: Clock,
    ) -> None:
        self._limits = limits
        self._bounds = bounds
        self._directories = directories
        self._held = held
        self._clock = clock
        self._began_at = 0
        self._told: set[str] = set()
        self._started_at = ticks()
        self._check_at = self._started_at + CHECK_SECONDS
        self._walk: DiskWalk | None = None
        self._walk_at = inf
        self._walked_for = 0.0
        self._walk_again_at = 0.0
        self._free_bytes = 0
        self.disk_bytes = 0
        """What the attempt has written, as far as is known."""
        self._duty = 1.0
        """The share of the time in which it may run."""
        self._turn_at: float | None = None
        self._is_standing = False
        bounds.begin(limits)

    def begin(self) -> None:
        """The command is about to start: what is written from here on is its own."""
        self._began_at = self._clock.now()
        self._started_at = ticks()
        self._walk_at = self._check_at = self._started_at + CHECK_SECONDS

    @property
    def deadline(self) -> float:
        """When to look again."""
        waits = [self._check_at, self._walk_at]
        return min(waits if self._turn_at is None else [*waits, self._turn_at])

    def on_time(self) -> None:
        """Do what is due."""
        now = ticks()
        if self._turn_at is not None and now >= self._turn_at:
            self._turn(now)
        if now >= self._check_at:
            age = now - self._started_at
            rest = min(max(CHECK_SECONDS, AGE_SHARE * age), LONGEST_CHECK_SECONDS)
            self._check_at = now + rest
            self._ask_the_kernel()
        if now >= self._walk_at:
            self._look_at_disk(now)

    # What is over its limit.

    def exceeded(self, over: Over, action: OverLimitAction) -> None:
        """Act on a limit that was gone over."""
        if action is OverLimitAction.THROTTLE:
            self._steer(over)
        if over.what in self._told:
            return
        self._told.add(over.what)
        what_then = {
            OverLimitAction.WARN: "it goes on",
            OverLimitAction.THROTTLE: "it is slowed down",
            OverLimitAction.KILL: "it is ended",
        }
        self._held.on_remark("W", f"WORKER-005: over its limit: {over}; {what_then[action]}")
        if action is OverLimitAction.KILL:
            oom = over.what == MEMORY and bool(self._bounds.counted().oom_kills)
            self._held.end_over_limit(OverLimit(over.what, over.limit, over.used, oom))

    def _find(self, over: Over) -> None:
        """A limit that we, not the daemon, saw gone over."""
        if over.what not in self._told:
            action = action_on(over, self._limits.action)
            self._held.on_over_limit(over, action)
            self.exceeded(over, action)

    def _ask_the_kernel(self) -> None:
        counted, limits = self._bounds.counted(), self._limits
        if counted.refused_forks:
            self._find(Over(PROCESSES, limits.max_processes, limits.max_processes + 1))
        if counted.oom_kills and MEMORY in self._bounds.enforced:
            self._find(self._memory())
        if counted.throttled and CPU not in self._told:
            # The kernel slows it down by itself: there is nothing to do but to say so.
            over = Over(CPU, limits.cpu_percent, limits.cpu_percent)
            self._told.add(CPU)
            self._held.on_over_limit(over, OverLimitAction.THROTTLE)
            self._held.on_remark("W", f"WORKER-005: slowed down to {limits.cpu_percent:g} % CPU")

    def _memory(self) -> Over:
        # The kernel lets nobody have more than the limit.
        return Over(MEMORY, self._limits.memory_mb, self._limits.memory_mb)

    def _look_at_disk(self, now: float) -> None:
        if self._walk is None:
            if not self._may_have_written(now):
                self._walk_at = self._check_at
                return
            self._walk, self._walked_for = DiskWalk(self._directories, self._began_at), 0.0
        self._walk.step()
        self._walked_for += ticks() - now
        self._walk_at = now
        if self._walk.is_done:
            self._finish_walk(self._walk)

    def _may_have_written(self, now: float) -> bool:
        """A disk that has lost little cannot hold much more of ours; that is quickly asked."""
        free = free_bytes(self._directories)
        left = max(0, self._limits.disk_bytes - self.disk_bytes)
        if now < self._walk_again_at and self._free_bytes - free < left / 2:
            return False
        self._free_bytes, self._walk_again_at = free, now + WALK_SECONDS
        return True

    def _finish_walk(self, walk: DiskWalk) -> None:
        self.disk_bytes, self._walk = walk.written_bytes, None
        # Together with the other looks, so that we wake up once for all of them.
        rest = DISK_SHARE * self._walked_for
        self._walk_at = self._check_at if rest < CHECK_SECONDS else ticks() + rest
        for over in overs(Sampled(disk_bytes=self.disk_bytes), self._limits):
            self._find(over)

    # Throttling without a group: running and standing still in turns.

    def _steer(self, over: Over) -> None:
        if CPU in self._bounds.enforced:
            return
        wanted = self._duty * over.limit / over.used if over.used else 1.0
        # A step at a time: what was measured is a moment old.
        self._duty = min(1.0, max(LEAST_DUTY, self._duty / 4, min(wanted, self._duty * 2)))
        self._turn_at = self._turn_at or ticks()

    def _turn(self, now: float) -> None:
        self._is_standing = not self._is_standing and self._duty < 1.0
        self._held.signal(signal.SIGSTOP if self._is_standing else signal.SIGCONT)
        share = 1 - self._duty if self._is_standing else self._duty
        self._turn_at = now + share * PERIOD_SECONDS

    def let_go(self) -> None:
        """The attempt is being ended: nothing is held still any more."""
        self._turn_at = None
        if self._is_standing:
            self._is_standing = False
            self._held.signal(signal.SIGCONT)

    # The end.

    def cause(
        self, ending: Ending, *, killed: bool, is_last: bool = False, container_mb: int = 0
    ) -> Ending:
        """How a command ended, if a limit had to do with it. The last one: nothing follows it."""
        if killed:
            return ending
        if container_mb:
            return self._container_out_of_memory(ending, container_mb)
        if self._bounds.counted(is_over=is_last).oom_kills:
            return self._out_of_memory(ending)
        if self._limits.action is OverLimitAction.KILL and ending != Exited(0):
            return self._out_of_disk(ending)
        return ending

    def _out_of_memory(self, ending: Ending) -> Ending:
        if MEMORY in self._bounds.enforced:
            over = self._memory()
            self._note(over)
            return OverLimit(over.what, over.limit, over.used, oom=True)
        # A shell that reports 137 tells what became of its child; a success needed no memory.
        return ending if ending == Exited(0) else Signalled(signal.SIGKILL, oom=True)

    def _container_out_of_memory(self, ending: Ending, limit_mb: int) -> Ending:
        """What all processes of a container shared is used up, and the kernel has killed one."""
        if ending == Exited(0):
            return ending
        self._note(Over(MEMORY, limit_mb, limit_mb))
        return Signalled(signal.SIGKILL, oom=True)

    def _out_of_disk(self, ending: Ending) -> Ending:
        walk = DiskWalk(self._directories, self._began_at)
        while not walk.is_done:
            walk.step()
        self.disk_bytes = walk.written_bytes
        by_signal = ending == Signalled(signal.SIGXFSZ)
        if self.disk_bytes < self._limits.disk_bytes and not by_signal:
            return ending
        used = max(self._limits.disk_mb, round(self.disk_bytes / MEGABYTE, 1))
        over = Over(DISK, self._limits.disk_mb, used)
        self._note(over)
        return OverLimit(over.what, over.limit, over.used)

    def _note(self, over: Over) -> None:
        if over.what not in self._told:
            self._told.add(over.what)
            self._held.on_over_limit(over, OverLimitAction.KILL)
            self._held.on_remark("W", f"WORKER-005: over its limit: {over}; it was ended")

    def usage(self, own: Usage) -> Usage:
        """What the attempt used: as the group has counted, where there is one."""
        if self._bounds.group is None:
            return own
        counted = self._bounds.group.usage()
        if not counted.cpu_seconds:
            return own  # nothing ever ran in it: the command was in a container
        most = max(counted.max_memory_bytes, _largest(own)) or own.max_memory_bytes
        return Usage(counted.cpu_seconds, most)


def _largest(own: Usage) -> int:
    """Memory of the largest process: files that are cached at the end say nothing about it.

    The kernel begins to count before the command is one, with what we use; that much is not told.
    """
    ours = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return own.max_memory_bytes if own.max_memory_bytes > 2 * ours else 0
