"""Do many processes that add at once get as much done as one, without an error?

Each writes directly, one task per commit, as the command line does.
"""

from collections.abc import Iterator
from itertools import pairwise
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from statistics import median
from time import monotonic
from typing import NamedTuple

from acode.cli.context import drive
from acode.clock import SystemClock
from acode.ids import new_id
from acode.model.task import Submission, TaskSpec
from acode.store.sqlite import SqliteStore
from bench.filled import Shelf
from bench.report import Line, Pair, at_least, duration
from bench.rounds import Rounds, Scale

PROCESSES = 8
QUEUE_SIZE = 1_000_000

processes = get_context("spawn")
_barrier: Barrier


class Stint(NamedTuple):
    """What one process did, on a clock that all share."""

    tasks: int
    begin: float
    end: float
    longest_add: float


def measure(shelf: Shelf, scale: Scale) -> Iterator[Line]:
    """Compare eight writers with one that has as much to add."""
    each = scale.committed // 4
    stints: list[Stint] = []

    def alone() -> float:
        return _rate(_run(shelf, 1, PROCESSES * each))

    def together() -> float:
        crowd = _run(shelf, PROCESSES, each)
        stints.extend(crowd)
        return _rate(crowd)

    rates = Rounds({"1 process": alone, "together": together}, scale.rounds)
    case = f"{PROCESSES} processes adding at once, no error"
    yield at_least(case, Pair(rates, "together", "1 process"), 1)
    yield _slowest(stints)


def _slowest(stints: list[Stint]) -> Line:
    spans = [stint.end - stint.begin for stint in stints]
    longest = max(stint.longest_add for stint in stints)
    return Line(
        "the slowest of the writers",
        duration(max(spans)),
        f"median writer: {duration(median(spans))}; longest single add: {duration(longest)}",
        max(spans) / median(spans),
    )


def _rate(stints: list[Stint]) -> float:
    span = max(stint.end for stint in stints) - min(stint.begin for stint in stints)
    return sum(stint.tasks for stint in stints) / span


def _run(shelf: Shelf, count: int, tasks: int) -> list[Stint]:
    path = shelf.fresh().queue_db
    barrier = processes.Barrier(count)
    with processes.Pool(count, _meet_at, (barrier,)) as pool:
        return pool.starmap(_add, [(path, tasks)] * count, chunksize=1)


def _meet_at(barrier: Barrier) -> None:
    global _barrier
    _barrier = barrier


def _add(path: str, tasks: int) -> Stint:
    """The life of one writer."""
    clock = SystemClock()
    store = SqliteStore.open(path, clock, grouped=False)
    _barrier.wait()
    moments = [monotonic()]
    for _ in range(tasks):
        submission = Submission(new_id(clock.now()), TaskSpec(command="true"))
        drive(store.add([submission], actor="bench", queue_size=QUEUE_SIZE))
        moments.append(monotonic())
    drive(store.close())
    waits = (after - before for before, after in pairwise(moments))
    return Stint(tasks, moments[0], moments[-1], max(waits))
