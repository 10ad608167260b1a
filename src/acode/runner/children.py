"""Reaping: what became of a command, and of everything that it started."""

import os
import resource

from acode.model.ending import Usage
from acode.runner.tree import children


class Tree:
    """A command below us with all its orphans; we are their subreaper."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.status: int | None = None
        """How the command itself ended."""
        self.is_gone = False
        """Nothing of it is left."""
        self._cpu_seconds = 0.0
        self._max_memory_bytes = 0

    def reap(self, strangers: set[int] | None = None, *, wait: bool = False) -> bool:
        """Collect every child that has ended, forget strangers; whether nothing is left.

        To wait is to return when the next one has ended.
        """
        while not self.is_gone:
            try:
                pid, status, used = os.wait4(-1, 0 if wait else os.WNOHANG)
            except ChildProcessError:
                self.is_gone = True
                break
            if pid == 0:
                self.is_gone = self._left_only(strangers)
                break
            wait = False
            if strangers and pid in strangers:
                strangers.discard(pid)
            else:
                self._account(pid, status, used)
        return self.is_gone

    def _account(self, pid: int, status: int, used: resource.struct_rusage) -> None:
        self._cpu_seconds += used.ru_utime + used.ru_stime
        self._max_memory_bytes = max(self._max_memory_bytes, used.ru_maxrss * 1024)
        if pid == self.pid:
            self.status = status

    def _left_only(self, strangers: set[int] | None) -> bool:
        """Whether nothing runs below us but strangers."""
        if not strangers or self.status is None:
            return False
        return strangers.issuperset(children(os.getpid()))

    @property
    def usage(self) -> Usage:
        """What it has used so far, as far as it has ended."""
        return Usage(round(self._cpu_seconds, 6), self._max_memory_bytes)
