"""How long from the submission of a task to the start of its command, while the pool is idle?

The command writes to a named pipe, so every way ends where its first word is heard. Submission and
claim are two commits. The pool brings them to the disk while the command starts already; what the
disk would take shows beside a spawn that waits for it twice.
"""

import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import perf_counter, sleep

from acode.model.state import Status
from acode.policy.commands import SHELL
from bench.filled import Shelf
from bench.pools import Pool, pool
from bench.report import Line, duration
from bench.rounds import Scale

WORKERS = 4
SAMPLES = 300
QUICK_SAMPLES = 100
COMMITS = 2
BARE = "subprocess.Popen"
DURABLE = f"{COMMITS} fsyncs, {BARE}"
FIRST_REST = 1.0
"""An idle pool is one that has had a moment to itself."""
RANKS = {"p50": (0.5, 2), "p99": (0.99, 10)}
"""Which of the sorted samples counts, and how many times the bare spawn it may take."""
# The longest rest from the first one on, as after minutes without work.
LONG_IDLE = {"pollIntervalMs": 30_000, "heartbeatIntervalMs": 60_000}


def measure(shelf: Shelf, scale: Scale) -> Iterator[Line]:
    """Compare a pool that has just worked, and one that rests for long, with a spawn."""
    count = SAMPLES if scale.rounds > 2 else QUICK_SAMPLES
    for case, settings in (("idle", {}), ("long idle", LONG_IDLE)):
        with pool(shelf.fresh(), WORKERS, **settings) as running:
            sleep(FIRST_REST)
            samples = _sample(running, count)
        for name, (rank, goal) in RANKS.items():
            case_name = f"submit to start, {case} pool, {name}"
            yield _line(case_name, samples, BARE, rank, goal)
            yield _line(case_name, samples, DURABLE, rank)


def _sample(running: Pool, count: int) -> dict[str, list[float]]:
    """All ways in turn."""
    path = os.path.join(running.project.root, "started")
    os.mkfifo(path)
    command = f"echo > {path}"
    # Opened for both, so that neither end ever waits for the other to open it.
    pipe = os.open(path, os.O_RDWR)
    disk = os.open(os.path.join(running.project.root, "page"), os.O_CREAT | os.O_WRONLY)
    ways = {
        "ours": partial(_through, running, command),
        BARE: partial(_spawned, command),
        DURABLE: partial(_spawned, command, disk=disk),
    }
    samples: dict[str, list[float]] = {name: [] for name in ways}
    try:
        for _ in range(count):
            for name, way in ways.items():
                samples[name].append(way(pipe))
    finally:
        os.close(pipe)
        os.close(disk)
    return samples


def _through(running: Pool, command: str, pipe: int) -> float:
    done = running.count(Status.COMPLETED)
    taken = _until_heard(pipe, lambda: running.submit([command]))
    running.wait_for(Status.COMPLETED, done + 1)
    return taken


def _spawned(command: str, pipe: int, disk: int | None = None) -> float:
    """Spawn it; with a file, wait for the disk before."""
    spawned: list[subprocess.Popen[bytes]] = []
    pages = [] if disk is None else [disk] * COMMITS

    def begin() -> None:
        for file in pages:
            os.write(file, bytes(4096))
            os.fdatasync(file)
        spawned.append(subprocess.Popen([SHELL, "-c", command]))

    taken = _until_heard(pipe, begin)
    spawned[0].wait()
    return taken


def _until_heard(pipe: int, begin: Callable[[], object]) -> float:
    """Until the first word, which may come before whoever began it goes on."""
    heard: list[float] = []

    def listen() -> None:
        os.read(pipe, 1)
        heard.append(perf_counter())

    listener = threading.Thread(target=listen)
    listener.start()
    began = perf_counter()
    begin()
    listener.join()
    return heard[0] - began


def _line(
    case: str, samples: dict[str, list[float]], beside: str, rank: float, goal: int | None = None
) -> Line:
    ours, theirs = _percentile(samples["ours"], rank), _percentile(samples[beside], rank)
    ratio = ours / theirs
    line = Line(case, duration(ours), f"{beside}: {duration(theirs)}", ratio)
    return line if goal is None else line._replace(goal=f"≤ {goal}x", met=ratio <= goal)


def _percentile(values: Sequence[float], rank: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * rank))]
