"""Who writes: the calling thread, or the one in `group`."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol

import msgspec

from acode.clock import Clock
from acode.errors import AcodeError
from acode.store.base import Ring
from acode.store.sql.transaction import Transaction

Write = Callable[[Transaction, Sequence[Any]], Sequence[Any]]
"""Does every request of one kind; a result that is an error is raised to its requester."""
Writes = Sequence[tuple[Write, Sequence[Any]]]


class Demand(msgspec.Struct, eq=False):
    """One write that somebody waits for."""

    write: Write
    request: Any
    quick: bool = False
    """It changes a few rows at most."""
    early: bool = False
    """Whoever asked goes on when it is committed, and not only when it is on disk."""
    seen: Callable[[Any], object] | None = None
    """Hears what came of it as soon as it is committed."""
    ring: Ring | None = None
    """Rung when nothing that is asked for from now on can come before it."""


class Book(Protocol):
    """An open store, ready for transactions."""

    @property
    def clock(self) -> Clock:
        """By which moments are written."""
        ...

    def commit(
        self, writes: Writes, *, patient: bool = True, rings: Iterable[Ring] = ()
    ) -> list[Sequence[Any]]:
        """Run writes in one transaction; without patience, not if another process writes.

        Rings when no other transaction can come before it any more.
        """
        ...

    def sync(self) -> None:
        """Bring everything that is committed to the disk, whoever committed it."""
        ...

    def tidy(self) -> None:
        """Use a moment in which nobody waits; never fails."""
        ...

    def read(self, query: Callable[..., Any], *arguments: Any) -> Any:
        """Run a query on one consistent state."""
        ...

    def close(self) -> None:
        """Let go."""
        ...


class Writer(Protocol):
    """Runs writes. What is committed is seen by others; then it is brought to the disk."""

    def write(self, demand: Demand) -> Awaitable[Any]:
        """Do one write; done when it is on disk, or when it is committed if that is enough."""
        ...

    def settle(self) -> Awaitable[None]:
        """Done when everything that was committed before is on disk."""
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
        rings = () if demand.ring is None else (demand.ring,)
        result = self._book.commit([(demand.write, [demand.request])], rings=rings)[0][0]
        if isinstance(result, AcodeError):
            raise result
        if demand.seen is not None:
            demand.seen(result)
        if not demand.early:
            self._book.sync()
        return result

    async def settle(self) -> None:
        """Wait for the disk."""
        self._book.sync()

    def stop(self) -> None:
        """Nothing is outstanding."""
