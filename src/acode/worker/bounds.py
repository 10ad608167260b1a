"""What holds a worker's attempts: its control group, its rlimits, its confinement."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import msgspec

from acode.clock import ticks
from acode.model.limits import AttemptLimits
from acode.runner.cell import Cell
from acode.runner.cgroup import remove_groups
from acode.runner.group import Counters, Group
from acode.runner.limits import Inheritance, bind_for_good
from acode.runner.sandbox import Confinement
from acode.worker.config import WorkerConfig
from acode.worker.confining import Confining

NOTHING = Counters(0, 0, 0)
CLOSED_SECONDS = 0.01
"""A thread that ends needs microseconds. A short command is over before we look after it."""


def _at_home() -> None:
    """Without a group, commands are born where the worker lives."""


class Bounds:
    """Made once for a worker and used for one attempt after the other.

    The group is made when the worker has nothing to do, or with its first attempt: while a hundred
    workers start at once, the kernel would have none of them forked before the one before it has
    entered its group.
    """

    def __init__(self, config: WorkerConfig) -> None:
        self.trouble: str | None = None
        """Why there is no control group although there could be one."""
        self.confining = Confining(config)
        self.group: Group | None = None
        self.enforced: frozenset[str] = frozenset()
        """The limits that the kernel keeps by itself."""
        self._planned = Group(config.cgroup, config.id) if config.cgroup else None
        self._name = f"{config.run_dir}/cgroups/{config.id}"
        self._inheritance = Inheritance(config.limits)
        self.limits = config.limits
        """Those of the present attempt."""
        self._cell: Cell | None = None
        self.closed_until: float | None = None
        """When to reopen, unless the attempt is over before that."""

    def _make_group(self, group: Group) -> Group | None:
        try:
            # Written down before it is made, so that whoever comes after us finds it.
            os.makedirs(os.path.dirname(self._name), exist_ok=True)
            with open(self._name, "wb") as file:
                file.write(msgspec.json.encode(sorted(group.directories.values())))
            group.make()
        except OSError as error:
            self.trouble = str(error)
            return None
        return group

    def prepare(self) -> None:
        """Make the group, and have a thread on its way into it: that takes milliseconds."""
        if self._planned is not None:
            self.group, self._planned = self._make_group(self._planned), None
        if self.group is not None and self.group.holds_threads and self._cell is None:
            self._cell = Cell(self.group.enter)

    def begin(self, limits: AttemptLimits) -> None:
        """What is started from here on belongs to the next attempt."""
        self.limits = limits
        self.prepare()
        if self.group is not None:
            self.enforced = self.group.hold_to(limits)
            self.group.begin()

    def spawn(self, confinement: Confinement | None, start: Callable[[], int]) -> int:
        """Start a command inside: it is there before its first instruction."""
        with self._inheritance.handed_down(self.limits):
            pid = self._start(confinement, start)
        if self.group is not None and self._cell is not None and self._cell.trouble is not None:
            self._do_without(self._cell.trouble)
        return pid

    def _start(self, confinement: Confinement | None, start: Callable[[], int]) -> int:
        if confinement is not None:
            self._cell = self._cell or Cell(_at_home)
            self.closed_until = ticks() + CLOSED_SECONDS
            return self.confining.spawn(confinement, start, self._cell)
        return start() if self._cell is None else self._cell.call(start)

    def reopen(self) -> None:
        """Let others look at us again: whoever spawned the command is gone."""
        if self.closed_until is not None:
            self.closed_until = None
            self.confining.reopen()

    def _do_without(self, error: OSError) -> None:
        """What was spawned lives where we do: a group that nobody is in says nothing."""
        self.trouble, self.group = str(error), None
        self.enforced = frozenset()

    @property
    def must_fork(self) -> bool:
        """Whether only a process can enter the group, and not a thread for it."""
        return self.group is not None and not self.group.holds_threads

    def steps(self) -> list[Callable[[], None]]:
        """What a child that is about to become the command does to get inside.

        Giving up its rights comes after this.
        """
        inside = [self.group.enter] if self.group is not None else []
        return [*inside, partial(bind_for_good, self.limits)]

    def counted(self, *, is_over: bool = False) -> Counters:
        """What the kernel has done to the present attempt."""
        return self.group.since_begin(is_over=is_over) if self.group is not None else NOTHING

    def kill(self) -> None:
        """Kill whatever is inside."""
        if self.group is not None:
            self.group.kill()

    def close(self) -> None:
        """Leave nothing; had we been killed, whoever finds our name would do this."""
        self.confining.close()
        if self._cell is not None:
            self._cell.close()
        if self.group is not None:
            self.group.close()
            if remove_groups(self.group.directories.values()):
                with suppress(FileNotFoundError):
                    os.unlink(self._name)
        self._inheritance.close()
