"""What do a hundred workers cost: to start, to keep, and to hear from?"""

import os
import time
from collections.abc import Callable, Iterator
from statistics import mean

import psutil

from acode.model.state import Status
from bench.filled import Shelf
from bench.pools import Pool, cpu_seconds, memory_bytes, pool
from bench.report import Line, Pair, at_most, duration
from bench.rounds import Rounds, Scale, seconds

FEW = 4
MANY = 100
START_GOAL = 3
EACH_GOAL_SECONDS = 0.010
MEMORY_GOAL_MB = 4.0
CPU_GOAL_PERCENT = 1.0
SETTLE_SECONDS = 2.0
"""Workers get ready for their first attempt when nobody else starts."""
IDLE_SECONDS = 20
"""Two heartbeats of every worker."""
TASKS_EACH = 20
MB = 1 << 20


def measure(shelf: Shelf, scale: Scale) -> Iterator[Line]:
    """Start pools of both sizes in turn, then look at an idle one."""
    starts = {str(count): _starting(shelf, count) for count in (FEW, MANY)}
    yield from _starts(Rounds(starts, scale.rounds))
    with pool(shelf.fresh(), MANY, poolLimits={"concurrentTasks": MANY}) as running:
        time.sleep(SETTLE_SECONDS)
        yield _memory("PSS of an idle worker", running)
        yield from _idleness(running)
        running.submit(["true"] * (MANY * TASKS_EACH))
        running.wait_for(Status.COMPLETED, MANY * TASKS_EACH)
        yield _memory(f"the same after {TASKS_EACH} tasks each", running)


def _starting(shelf: Shelf, count: int) -> Callable[[], float]:
    def turn() -> float:
        begin = time.perf_counter()
        with pool(shelf.fresh(), count):
            return time.perf_counter() - begin

    return turn


def _starts(rounds: Rounds) -> Iterator[Line]:
    few, many = str(FEW), str(MANY)
    yield at_most(f"worker start --count {MANY}", Pair(rounds, many, few), START_GOAL)
    each = (rounds.median(many) - rounds.median(few)) / (MANY - FEW)
    goal = f"< {duration(EACH_GOAL_SECONDS)}"
    yield Line("each further worker", duration(each), "", None, goal, each < EACH_GOAL_SECONDS)


def _memory(case: str, running: Pool) -> Line:
    used = mean(memory_bytes(pid) for pid in running.worker_pids()) / MB
    goal = f"≤ {MEMORY_GOAL_MB:g} MB"
    return Line(case, f"{used:.1f} MB", "", None, goal, used <= MEMORY_GOAL_MB)


def _idleness(running: Pool) -> Iterator[Line]:
    """The processor time of everybody, heartbeats included, and what they wrote."""
    daemon = psutil.Process(running.daemon_pid)
    pids = [process.pid for process in (daemon, *daemon.children(recursive=True))]
    files, used = _files(running.project.agent_dir), {pid: cpu_seconds(pid) for pid in pids}
    elapsed = seconds(lambda: time.sleep(IDLE_SECONDS))
    # The daemon's helpers, who look at tools and at what was left, come and go.
    staying = [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
    percent = sum(cpu_seconds(pid) - used[pid] for pid in staying) / elapsed * 100
    changed = len(set(_files(running.project.agent_dir).items()) - set(files.items()))
    yield Line(
        f"{MANY} idle workers and their heartbeats",
        f"{percent:.2f} % of a core",
        f"over {elapsed:.0f} s",
        None,
        f"< {CPU_GOAL_PERCENT:g} %",
        percent < CPU_GOAL_PERCENT,
    )
    yield Line("files written meanwhile", str(changed), "", None, "0", changed == 0)


def _files(directory: str) -> dict[str, tuple[int, int]]:
    """Size and time of every file."""
    found: dict[str, tuple[int, int]] = {}
    for folder, _, names in os.walk(directory):
        for name in names:
            status = os.lstat(os.path.join(folder, name))
            found[os.path.join(folder, name)] = (status.st_size, status.st_mtime_ns)
    return found
