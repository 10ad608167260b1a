"""A thread that spawns for its process: what it starts is born in the control groups it lives in.

In version 1 of control groups a thread can live elsewhere than its process, so that a worker is
neither charged for its attempts nor killed or slowed down with them.
"""

import _thread
import errno
import os
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class _Order(NamedTuple):
    function: Callable[[], Any]
    spends: bool = False
    """Whoever calls it is of no further use."""


class Cell:
    """Calls functions in a thread of its own, one at a time, while the caller waits."""

    def __init__(self, settle_in: Callable[[], None]) -> None:
        """`settle_in` is the first thing that the thread does; the first call waits for it."""
        self._asked = _locked()
        self._done = _locked()
        self._order: _Order | None = None
        self._outcome: tuple[Any, BaseException | None] = (None, None)
        self._settle_in = settle_in
        self._effects: set[tuple[Hashable, ...]] = set()
        self._spent = 0
        """The thread that was spent last."""
        self.trouble: OSError | None = None
        """Why it could not settle in; then it spawns where its process lives."""
        _thread.start_new_thread(self._run, ())

    def call(self, function: Callable[[], T]) -> T:
        """What the function returns or raises there."""
        result: T = self._obeyed(_Order(function))
        return result

    def once(self, function: Callable[..., object], *arguments: Hashable) -> None:
        """Call a function there whose effect stays, unless that was done before."""
        if (function, arguments) not in self._effects:
            self.call(lambda: function(*arguments))
            self._effects.add((function, arguments))

    def spend(self, function: Callable[[], T]) -> T:
        """The same in a thread made for it, which ends with it and may have given up anything."""
        result: T = self._obeyed(_Order(function, spends=True))
        return result

    def bury(self) -> None:
        """Return when the thread that was spent last is gone."""
        while self._spent:
            if os.path.exists(f"/proc/self/task/{self._spent}"):
                os.sched_yield()
            else:
                self._spent = 0

    def close(self) -> None:
        """End the thread."""
        self.bury()
        self._obeyed(None)
        self.bury()

    def _obeyed(self, order: _Order | None) -> Any:
        self._order = order
        self._asked.release()
        self._done.acquire()
        (value, error), self._outcome = self._outcome, (None, None)
        if error is not None:
            raise error
        return value

    def _run(self) -> None:
        try:
            self._settle_in()
        except OSError as error:
            self.trouble = error
        self._asked.acquire()
        while (order := self._order) is not None:
            if order.spends:
                self._pass_on(order.function)
            else:
                self._do(order.function)
            self._asked.acquire()
        self._spent = _thread.get_native_id()
        self._done.release()

    def _pass_on(self, function: Callable[[], Any]) -> None:
        """Leave it to another thread, which is born where we live."""
        try:
            _thread.start_new_thread(self._do_and_end, (function,))
        except RuntimeError as error:
            self._outcome = (None, OSError(errno.EAGAIN, f"no thread can be started: {error}"))
            self._done.release()

    def _do_and_end(self, function: Callable[[], Any]) -> None:
        self._spent = _thread.get_native_id()
        self._do(function)

    def _do(self, function: Callable[[], Any]) -> None:
        try:
            self._outcome = (function(), None)
        except BaseException as error:  # the caller's, wherever it happens
            self._outcome = (None, error)
        self._done.release()


def _locked() -> _thread.LockType:
    lock = _thread.allocate_lock()
    lock.acquire()
    return lock
