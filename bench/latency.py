"""How long from the submission of a task to the start of its command, while the pool is idle?

The command writes to a named pipe, so both ways end where its first word is heard. A submission
is on disk before the bell rings, and so is the claim before the command starts.
"""

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence

from acode.model.state import Status
from acode.policy.commands import SHELL
from bench.filled import Shelf
from bench.pools import Pool, pool
from bench.report import Line, duration
from bench.rounds import Scale, seconds

WORKERS = 4
SAMPLES = 300
P50_GOAL = 2
P99_GOAL = 10
# The longest rest from the first one on, as after minutes without work.
LONG_IDLE = {"pollIntervalMs": 30_000, "heartbeatIntervalMs": 60_000}


def measure(shelf: Shelf, scale: Scale) -> Iterator[Line]:
    """Compare a pool that has just worked, and one that rests for long, with a bare spawn."""
    for case, settings in (("idle pool", {}), ("long idle pool", LONG_IDLE)):
        with pool(shelf.fresh(), WORKERS, **settings) as running:
            ours, bare = _sample(running, SAMPLES if scale.rounds > 2 else SAMPLES // 3)
        yield _line(f"submit to start, {case}, p50", ours, bare, 0.5, P50_GOAL)
        yield _line(f"submit to start, {case}, p99", ours, bare, 0.99, P99_GOAL)


def _sample(running: Pool, count: int) -> tuple[list[float], list[float]]:
    """Both ways in turn."""
    path = os.path.join(running.project.root, "started")
    os.mkfifo(path)
    # Opened for both, so that neither end ever waits for the other to open it.
    pipe = os.open(path, os.O_RDWR)
    command = f"echo > {path}"
    ours: list[float] = []
    bare: list[float] = []
    try:
        for number in range(count):
            ours.append(seconds(_heard(pipe, lambda: running.submit([command]))))
            running.wait_for(Status.COMPLETED, number + 1)
            spawned: list[subprocess.Popen[bytes]] = []
            bare.append(seconds(_heard(pipe, lambda: spawned.append(_spawn(command)))))  # noqa: B023
            spawned[0].wait()
    finally:
        os.close(pipe)
    return ours, bare


def _heard(pipe: int, begin: Callable[[], object]) -> Callable[[], None]:
    def until_heard() -> None:
        begin()
        os.read(pipe, 1)

    return until_heard


def _spawn(command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([SHELL, "-c", command])


def _line(case: str, ours: Sequence[float], bare: Sequence[float], rank: float, goal: int) -> Line:
    mine, theirs = _percentile(ours, rank), _percentile(bare, rank)
    beside = f"subprocess.Popen: {duration(theirs)}"
    ratio = mine / theirs
    return Line(case, duration(mine), beside, ratio, f"≤ {goal}x", ratio <= goal)


def _percentile(values: Sequence[float], rank: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * rank))]
