"""Does a claim cost the same however many tasks wait?

The disk's share is left out (`synchronous = OFF`): it is the same at every size and would hide
what the size costs.
"""

from collections.abc import Callable, Collection, Iterator
from statistics import median

from acode.clock import SystemClock
from acode.store.base import Circuit, Claim
from acode.store.sql.claims import claim
from acode.store.sql.store import AGEING_MS
from acode.store.sqlite.book import SqliteBook
from acode.store.sqlite.connection import connect
from bench.filled import Filling, Shelf
from bench.report import Line, Pair, at_most
from bench.rounds import Rounds, Scale, seconds

SMALL = 1_000
GOAL = 1.2
CLAIMS = 40
"""In each turn."""
HELD = (Circuit("script", None),)


def measure(shelf: Shelf, scale: Scale) -> Iterator[Line]:
    """Compare the largest databases with the smallest."""
    sizes = (SMALL, scale.rows // 10, scale.rows)
    for mixed, layout in ((False, "one level"), (True, "four levels, completed between")):
        turns = {f"{size:,}": _turn(shelf, Filling(size, mixed)) for size in sizes}
        costs = Rounds(turns, scale.rounds)
        small, *larger = turns
        for size in larger:
            yield at_most(f"claim, {size} pending, {layout}", Pair(costs, size, small), GOAL)
    yield _held(shelf, scale)


def _held(shelf: Shelf, scale: Scale) -> Line:
    """What an open circuit costs that holds the older half of the queue."""
    filling = Filling(scale.rows)
    turns = {"held": _turn(shelf, filling, HELD), "none held": _turn(shelf, filling)}
    pair = Pair(Rounds(turns, scale.rounds), "held", "none held")
    return at_most(f"claim, {scale.rows:,} pending, the older half held", pair)


def _turn(shelf: Shelf, filling: Filling, held: Collection[Circuit] = ()) -> Callable[[], float]:
    """Claims one task at a time; gives the median cost of one."""
    path = shelf.filled(filling).queue_db
    connection = connect(path)
    connection.execute("PRAGMA synchronous = OFF")
    book = SqliteBook(path, connection, SystemClock(), AGEING_MS)
    wanted = Claim(1, lambda tasks: ["worker"] * len(tasks), held)

    def one() -> None:
        if not book.commit([(claim, [wanted])])[0][0]:
            raise RuntimeError("nothing was left to claim")

    return lambda: median(seconds(one) for _ in range(CLAIMS))
