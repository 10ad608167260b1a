"""Who writes: the calling thread, or the one in `group`."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from acode.clock import Clock
from acode.errors import AcodeError
from acode.store.sql.transaction import Transaction

Write = Callable[[Transaction, Sequence[Any]], Sequence[Any]]
"""Does every request of one kind; a result that is an error is raised to its requester."""
Writes = Sequence[tuple[Write, Sequence[Any]]]


class Demand(NamedTuple):
    """One write that somebody waits for."""

    write: Write
    request: Any
    quick: bool = False
    """It changes a few rows at most."""
    open_early: bool = False
    """Others may see it before it is on disk: nobody will have been told that it is there."""


class Book(Protocol):
    """An open store, ready for transactions."""

    @property
    def clock(self) -> Clock:
        """By which moments are written."""
        ...

    def commit(self, writes: Writes, *, patient: bool = True) -> list[Sequence[Any]]:
        """Run writes in one transaction; without patience, not if another process writes."""
        ...

    def commit_early(self, writes: Writes) -> list[Sequence[Any]]:
        """The same, but others may see it before it is on disk."""
        ...

    def read(self, query: Callable[..., Any], *arguments: Any) -> Any:
        """Run a query on one consistent state."""
        ...

    def close(self) -> None:
        """Let go."""
        ...


class Writer(Protocol):
    """Runs writes durably."""

    async def write(self, demand: Demand) -> Any:
        """Do one write; returns when it is on disk."""
        ...

    def stop(self) -> None:
        """Finish what was asked for and let go."""
        ...


class DirectWriter:
    """Writes in the calling thread: for short-lived programs. Its coroutines never suspend."""

    def __init__(self, book: Book) -> None:
        self._book = book

    async def write(self, demand: Demand) -> Any:
        """Do one write in a transaction of its own."""
        commit = self._book.commit_early if demand.open_early else self._book.commit
        result = commit([(demand.write, [demand.request])])[0][0]
        if isinstance(result, AcodeError):
            raise result
        return result

    def stop(self) -> None:
        """Nothing is outstanding."""
