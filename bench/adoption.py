"""How soon does a new daemon have everything in hand that a killed one left running?"""

import os
import signal
from collections.abc import Iterator
from statistics import median

from acode.clock import Deadline
from acode.engine.lock import holder
from acode.model.state import Status
from bench.filled import Shelf
from bench.pools import PATIENCE_SECONDS, Pool, pool
from bench.report import Line, duration
from bench.rounds import Scale, seconds

TASKS = 20
GOAL_SECONDS = 2.0


def measure(shelf: Shelf, scale: Scale) -> Iterator[Line]:
    """Kill the daemon and start another, over and over."""
    taken: list[float] = []
    with pool(shelf.fresh(), TASKS) as running:
        running.submit(["sleep 600"] * TASKS)
        running.wait_for(Status.RUNNING, TASKS)
        workers = set(running.worker_pids())
        for _ in range(scale.rounds):
            _kill_daemon(running)
            taken.append(seconds(lambda: running.start(TASKS)))
            kept = len(workers & set(running.worker_pids()))
        restarted = TASKS - _untouched(running)
    beside = f"slowest: {duration(max(taken))}; {kept} of {TASKS} kept, {restarted} restarted"
    met = max(taken) <= GOAL_SECONDS and kept == TASKS and restarted == 0
    case = f"start after kill -9 with {TASKS} tasks running"
    yield Line(case, duration(median(taken)), beside, None, f"≤ {duration(GOAL_SECONDS)}", met)


def _kill_daemon(running: Pool) -> None:
    os.kill(running.daemon_pid, signal.SIGKILL)
    deadline = Deadline(PATIENCE_SECONDS)
    while holder(running.project.daemon_lock) is not None:
        if not deadline.rest(0.001):
            raise RuntimeError("the daemon cannot be killed")


def _untouched(running: Pool) -> int:
    """How many tasks are still in their first attempt."""
    return sum(task.attempt_count == 1 for task in running.tasks(Status.RUNNING))
