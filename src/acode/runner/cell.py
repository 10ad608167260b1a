"""A thread that spawns for its process: what it starts is born in the control groups it lives in.

In version 1 of control groups a thread can live elsewhere than its process, so that a worker is
neither charged for its attempts nor killed or slowed down with them.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class Cell:
    """Calls functions in a thread of its own, one at a time, while the caller waits."""

    def __init__(self, settle_in: Callable[[], None]) -> None:
        """`settle_in` is the first thing that the thread does; the first call waits for it."""
        self._asked: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._done: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._settle_in = settle_in
        self.trouble: OSError | None = None
        """Why it could not settle in; then it spawns where its process lives."""
        self._thread = threading.Thread(target=self._run, name="cell", daemon=True)
        self._thread.start()

    def call(self, function: Callable[[], T]) -> T:
        """What the function returns or raises there."""
        self._asked.put(function)
        value, error = self._done.get()
        if error is not None:
            raise error
        result: T = value
        return result

    def close(self) -> None:
        """End the thread."""
        self._asked.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._settle_in()
        except OSError as error:
            self.trouble = error
        while (function := self._asked.get()) is not None:
            try:
                self._done.put((function(), None))
            except BaseException as error:  # the caller's, wherever it happens
                self._done.put((None, error))
