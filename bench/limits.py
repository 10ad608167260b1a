"""What does it cost to hold attempts to limits, and to know what they use?

The same pool with and without control groups runs short commands in turns; then a hundred workers
are busy while the daemon looks at all of them once a second.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from acode.model.state import Status
from bench.command import environment
from bench.filled import Shelf
from bench.pools import Pool, cpu_seconds, pool
from bench.report import Line, Pair, at_least
from bench.rounds import Rounds, Scale, seconds

TASKS = 1_000
QUICK_TASKS = 400
AT_ONCE = 4
GOAL = 0.9
MANY = 100
WATCH_SECONDS = 20
CPU_GOAL_PERCENT = 2.0
WITH, WITHOUT = "with control groups", "without"


def measure(shelf: Shelf, scale: Scale) -> Iterator[Line]:
    """The price of limits for short commands, then that of the monitor."""
    tasks = TASKS if scale.rounds > 2 else QUICK_TASKS
    with ExitStack() as stack:
        turns = {}
        for name, switch in ((WITH, "on"), (WITHOUT, "off")):
            with environment(ACODE_CGROUPS=switch):
                running = stack.enter_context(pool(shelf.fresh(), AT_ONCE))
            turns[name] = _draining(running, tasks)
        rates = Rounds(turns, max(scale.rounds, 5))
    yield at_least(f"{tasks:,} x `true`, {AT_ONCE} workers", Pair(rates, WITH, WITHOUT), GOAL)
    limits = {"concurrentTasks": MANY}
    with pool(shelf.fresh(), MANY, poolLimits=limits) as running:
        yield _watching(running)


def _draining(running: Pool, tasks: int) -> Callable[[], float]:
    def drain(total: int) -> None:
        running.submit(["true"] * tasks)
        running.wait_for(Status.COMPLETED, total)

    def turn() -> float:
        before = running.count(Status.COMPLETED)
        return tasks / seconds(lambda: drain(before + tasks))

    return turn


def _watching(running: Pool) -> Line:
    """Everything that is done while a hundred tasks run: by the monitor, wardens, heartbeats."""
    running.submit([f"sleep {WATCH_SECONDS * 5}; true"] * MANY)
    running.wait_for(Status.RUNNING, MANY)
    # Whoever has just begun is looked at more often.
    time.sleep(WATCH_SECONDS)
    groups = [[running.daemon_pid], running.worker_pids()]
    used = [sum(map(cpu_seconds, pids)) for pids in groups]
    elapsed = seconds(lambda: time.sleep(WATCH_SECONDS))
    daemon, workers = (
        (sum(map(cpu_seconds, pids)) - before) / elapsed * 100
        for pids, before in zip(groups, used, strict=True)
    )
    percent = daemon + workers
    return Line(
        f"{MANY} busy workers, watched",
        f"{percent:.2f} % of a core",
        f"of which the daemon {daemon:.2f} %",
        None,
        f"< {CPU_GOAL_PERCENT:g} %",
        percent < CPU_GOAL_PERCENT,
    )
