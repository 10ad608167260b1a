"""Ends, delays or troubles a process of acode at a named step. Python reads it at every start.

FAULT names a function and a moment (`module:Class.method:before|after`), the number of the call
and what happens then. It happens once: to whoever burns the fuse. A command is struck only if FAULT
names a module of the command line.
LANDLOCK is how much of it the kernel seems to know.
PATIENCE_OF_ORPHANS is how many seconds a worker waits for the next daemon.
"""

import asyncio
import errno
import functools
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Callable
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Change = Callable[[ModuleType], None]


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
        elif self.action == "interrupt":
            signal.raise_signal(signal.SIGINT)
        elif self.action == "refuse":
            raise OSError(errno.EIO, "refused by a fault")
        else:
            time.sleep(float(self.action))

    def __call__(self, module: ModuleType) -> None:
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
    """Loads a module and changes something in it."""

    def __init__(self, loader: Any, change: Change) -> None:
        self._loader = loader
        self._change = change

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._change(module)


class Finder:
    """Finds the one module."""

    def __init__(self, name: str, change: Change) -> None:
        self._name = name
        self._change = change

    def find_spec(self, name: str, *_where: Any) -> ModuleSpec | None:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None:
            spec.loader = Patched(spec.loader, self._change)
        return spec


def change(name: str, how: Change) -> None:
    """Change a module as soon as it is there."""
    if name in sys.modules:
        how(sys.modules[name])
    else:
        sys.meta_path.insert(0, Finder(name, how))


def main() -> None:
    if version := os.environ.get("LANDLOCK"):
        change("acode.runner.landlock", lambda module: setattr(module, "abi", lambda: int(version)))
    words = os.environ.get("FAULT", "")
    is_command = not {"acode.engine.daemon", "acode.worker.zygote"} & set(sys.orig_argv)
    if is_command != words.startswith("acode.cli."):
        return
    if words:
        fault = Fault(words, os.environ["FAULT_FUSE"])
        change(fault.module, fault)
    if seconds := os.environ.get("PATIENCE_OF_ORPHANS"):
        change(
            "acode.worker.main", lambda module: setattr(module, "ORPHAN_SECONDS", float(seconds))
        )


main()
