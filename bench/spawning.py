"""How many commands a second does the pool run, each with its claim and its end on disk?

Four workers beside other ways to run four at once. None of those keeps a record that survives.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from acode.model.state import Status
from bench import runners
from bench.celery_peer import celery
from bench.command import environment
from bench.filled import Shelf
from bench.pools import Pool, pool
from bench.report import Line, Pair, at_least
from bench.rounds import Rounds, Scale, seconds

TASKS = 2_000
QUICK_TASKS = 500
FLOOR = "posix_spawn + wait"
OURS = "acode"
OPEN = "without sandbox and control groups"
"""None of the others has them."""
GOALS: dict[str, float] = {FLOOR: 0.6, "GNU parallel": 2, "task-spooler": 2, "Celery": 2}
SLOW = {"GNU parallel", "task-spooler", "task-spooler that keeps output", "Celery"}
"""These get a quarter of the commands: it is the rate that counts."""


def measure(shelf: Shelf, scale: Scale) -> Iterator[Line]:
    """Compare with the floor and with every runner that is installed."""
    tasks = TASKS if scale.rounds > 2 else QUICK_TASKS
    with ExitStack() as stack:
        running = stack.enter_context(pool(shelf.fresh(), runners.AT_ONCE))
        with environment(ACODE_CGROUPS="off", ACODE_SANDBOX__LEVEL="off"):
            unbound = stack.enter_context(pool(shelf.fresh(), runners.AT_ONCE))
        peers = {FLOOR: runners.bare} | runners.installed() | stack.enter_context(celery())
        turns = {OURS: _ours(running, tasks), OPEN: _ours(unbound, tasks)}
        for name, run in peers.items():
            turns[name] = _theirs(shelf.directory, tasks // 4 if name in SLOW else tasks, run)
        rates = Rounds(turns, scale.rounds)
    for name in peers:
        case = f"{tasks:,} x `{runners.COMMAND}`, {runners.AT_ONCE} workers"
        yield at_least(case, Pair(rates, OURS, name), GOALS.get(name))
    for name in (FLOOR, "Celery"):
        if name in peers:
            yield at_least(f"the same {OPEN}", Pair(rates, OPEN, name))
    for name in GOALS.keys() - peers.keys():
        yield Line(f"{name} is not installed", "", "")


def _ours(running: Pool, tasks: int) -> Callable[[], float]:
    def drain(total: int) -> None:
        running.submit([runners.COMMAND] * tasks)
        running.wait_for(Status.COMPLETED, total)

    def turn() -> float:
        before = running.count(Status.COMPLETED)
        return tasks / seconds(lambda: drain(before + tasks))

    return turn


def _theirs(directory: str, tasks: int, run: runners.Runner) -> Callable[[], float]:
    def turn() -> float:
        with tempfile.TemporaryDirectory(dir=directory) as fresh:
            return tasks / seconds(lambda: run(fresh, tasks))

    return turn
