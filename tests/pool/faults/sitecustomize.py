"""Ends or delays a process of acode at a named step. Python reads it at every start.

FAULT names a function and a moment (`module:Class.method:before|after`), the number of the call
and what happens then. It happens once: to whoever burns the fuse.
"""

import asyncio
import functools
import importlib.util
import os
import signal
import sys
import time
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class Fault:
    """What goes wrong, where, and whether it has."""

    def __init__(self, words: str, fuse: str) -> None:
        self.module, self.name, self.moment, count, self.action = words.split(":")
        self._left = int(count)
        self._fuse = fuse

    def strike(self) -> None:
        """Maybe the last thing that this process does."""
        if not os.path.exists(self._fuse):
            return
        self._left -= 1
        if self._left != 0:
            return
        try:
            os.unlink(self._fuse)
        except FileNotFoundError:
            return  # it has happened elsewhere
        if self.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            time.sleep(float(self.action))

    def install(self, module: ModuleType) -> None:
        """Put it around the function."""
        *path, name = self.name.split(".")
        owner = functools.reduce(getattr, path, module)
        setattr(owner, name, self._around(getattr(owner, name)))

    def _around(self, function: Any) -> Any:
        @functools.wraps(function)
        def plain(*args: Any, **words: Any) -> Any:
            if self.moment == "before":
                self.strike()
            value = function(*args, **words)
            if self.moment == "after":
                self.strike()
            return value

        @functools.wraps(function)
        async def slow(*args: Any, **words: Any) -> Any:
            if self.moment == "before":
                self.strike()
            value = await function(*args, **words)
            if self.moment == "after":
                self.strike()
            return value

        return slow if asyncio.iscoroutinefunction(function) else plain


class Patched(Loader):
    """Loads a module and puts the fault into it."""

    def __init__(self, loader: Any, fault: Fault) -> None:
        self._loader = loader
        self._fault = fault

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._fault.install(module)


class Finder:
    """Finds the one module."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault

    def find_spec(self, name: str, *_where: Any) -> ModuleSpec | None:
        if name != self._fault.module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None:
            spec.loader = Patched(spec.loader, self._fault)
        return spec


def main() -> None:
    words, fuse = os.environ.get("FAULT"), os.environ.get("FAULT_FUSE")
    ours = {"acode.engine.daemon", "acode.worker.zygote"} & set(sys.orig_argv)
    if not words or not fuse or not ours:
        return
    fault = Fault(words, fuse)
    if fault.module in sys.modules:
        fault.install(sys.modules[fault.module])
    else:
        sys.meta_path.insert(0, Finder(fault))


main()
