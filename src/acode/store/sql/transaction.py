"""One commit: named queries, a moment, and what changes with every write."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from acode.errors import StoreBusy
from acode.model.state import Status
from acode.store.sql.rows import Row

MOVE_COLUMNS = 6
"""Of a move that ends no attempt. One that does also tells its number, worker, host, start, end,
ending, failure and usage."""
_WAITING = (Status.PENDING.value, Status.BLOCKED.value)


class Transaction(ABC):
    """Runs named queries; whoever opened it commits. Each engine says how."""

    __slots__ = ("_moves", "_tallies", "ageing_ms")

    foresees = False
    """Whether it is worth while to `ask` early."""

    def __init__(self, ageing_ms: int) -> None:
        self.ageing_ms = ageing_ms
        self._tallies: dict[tuple[str, int], int] = {}
        self._moves: list[Row] = []

    # What an engine brings.

    @property
    @abstractmethod
    def now(self) -> int:
        """The moment that is written down."""

    @abstractmethod
    def all(self, name: str, **parameters: Any) -> list[Row]:
        """Every row."""

    @abstractmethod
    def compose(self, name: str, **parts: str) -> str:
        """A statement that is put together."""

    @abstractmethod
    def rows(self, statement: str, parameters: dict[str, Any]) -> list[Row]:
        """Every row of a statement that was put together."""

    @abstractmethod
    def value(self, name: str, **parameters: Any) -> Any:
        """The first column of the first row; None without one."""

    @abstractmethod
    def run(self, name: str, **parameters: Any) -> int:
        """A write; says how many rows it changed."""

    @abstractmethod
    def put(self, name: str, rows: Sequence[Row]) -> list[Row]:
        """A set-based write; the rows that it returns, if it returns any."""

    @property
    def moment(self) -> int | None:
        """The present moment for leases; None leaves it to the clock of the server."""
        return self.now

    @abstractmethod
    def slot(self, name: str) -> str:
        """How a parameter of this name is written in a statement."""

    @abstractmethod
    def fresh_seqs(self, count: int) -> Iterator[int]:
        """Sequence numbers for at least so many new tasks."""

    def ahead(self, name: str, values: Collection[Any]) -> None:  # noqa: B027 -- most need not
        """Ask early what `among` will ask, where that saves a way to the server and back."""

    def ask(self, statement: str, parameters: dict[str, Any]) -> None:  # noqa: B027 -- the same
        """Ask early what `rows` will ask, if nothing comes between that changes the answer."""

    @abstractmethod
    def windows(self, limit: int) -> tuple[int, ...]:
        """How far a claim looks for so many tasks; it looks further while it finds too few."""

    def candidates(self, fits: str, window: int) -> str:  # noqa: ARG002 -- a parameter for most
        """The statement that finds what to claim among what fits; nothing while claims are held."""
        return self.compose("candidates", fits=fits)

    @abstractmethod
    def hold(self, task_ids: Sequence[str]) -> None:
        """Keep others from writing these, in one order, so that nobody waits in a circle."""

    @abstractmethod
    def hold_dependents(self, completed: Sequence[int]) -> bool:
        """Keep others from freeing what waits for these; whether there may be something."""

    @abstractmethod
    def abandoned(self, host_id: str) -> list[Row]:
        """The leases of hosts whose time is up, locked for this host, which must be in time."""

    @abstractmethod
    def freeze(self) -> None:
        """Keep everybody else from writing until this is over."""

    @abstractmethod
    def load(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Put rows in as they are."""

    @abstractmethod
    def renumber(self, newest: int) -> None:
        """Go on counting where the rows end, and the moves at this number."""

    @abstractmethod
    def damage(self) -> list[str]:
        """What the engine itself finds wrong."""

    @abstractmethod
    def bump(self, changes: list[tuple[str, int, int]]) -> None:
        """Change tallies: status, priority level, by how much."""

    @abstractmethod
    def complete(self, given: Sequence[Row]) -> list[Row]:
        """Complete tasks, each by its current token, note that, and forget their steps.

        Given id, token, end, result, ending, usage and actor of each; the id, sequence number
        and level of those that were, and whether others may wait for it.
        """

    # What all of them share.

    def among(self, name: str, values: Iterable[Any]) -> list[Row]:
        """Every row of a query about a set of values, each given once."""
        return self.put(name, [(value,) for value in values])

    def known(self, ids: Collection[str]) -> list[Row]:
        """Id, sequence number and status of those of these tasks that are there already."""
        return self.among("tasks_with_ids", ids)

    def count(self, was: str | None, became: str | None, level: int, n: int = 1) -> None:
        """Note that `n` tasks of this priority level went from one status to another."""
        if was is not None:
            self._tallies[was, level] = self._tallies.get((was, level), 0) - n
        if became is not None:
            self._tallies[became, level] = self._tallies.get((became, level), 0) + n

    def note_move(
        self,
        seq: int,
        was: str | None,
        became: str,
        actor: str,
        reason: str,
        ended: Row = (),
    ) -> None:
        """Note a line of a task's history, and the attempt that ended so."""
        self._moves.append((seq, was, became, self.now, actor, reason, *ended))

    def note_moves(self, moves: Iterable[Row]) -> None:
        """The same for many: sequence number, both statuses, moment, actor, reason, attempt."""
        self._moves += moves

    def lease(self, leased: Sequence[Row]) -> None:
        """Write leases down: sequence number, attempt, worker, moment, token and host of each."""
        self.put("lease", leased)
        self.note_moves(
            [
                (seq, "pending", "running", now, f"worker-{worker}", f"attempt {number}")
                for seq, number, worker, now, _, _ in leased
            ]
        )

    def waiting(self) -> int:
        """Tasks that wait, those of this transaction included."""
        return int(self.value("waiting") or 0) + self.noted_waiting()

    def noted_waiting(self) -> int:
        """By how many this transaction changes that."""
        return sum(n for (status, _), n in self._tallies.items() if status in _WAITING)

    def write_moves(self) -> None:
        """Write the noted lines of history, for whoever reads or removes them."""
        if not self._moves:
            return
        for columns, moves in groupby(self._moves, key=len):
            self.put("insert_ends" if columns > MOVE_COLUMNS else "insert_history", list(moves))
        self._moves.clear()

    def settle(self) -> None:
        """Write what was noted; the last thing before the commit."""
        self.write_moves()
        self.bump(self.changes())

    def changes(self) -> list[tuple[str, int, int]]:
        """By how much the tallies change: status, priority level, how many."""
        return [(*key, n) for key, n in self._tallies.items() if n]


def tally(levels: Iterable[int]) -> dict[int, int]:
    """How many there are of each priority level. `Counter` takes longer for a few."""
    counted: dict[int, int] = {}
    for level in levels:
        counted[level] = counted.get(level, 0) + 1
    return counted


def filling() -> StoreBusy:
    """Why a queue that is being filled takes nothing from others."""
    return StoreBusy(
        "this queue is being filled by acode queue migrate",
        "wait until it is done; if it was interrupted, run it again",
    )
