"""Ending a daemon that does not answer, and workers that no daemon looks after."""

import signal
from contextlib import ExitStack

from acode.clock import Deadline
from acode.engine.remains import remove_group
from acode.errors import WorkerTimeout
from acode.model.worker import ProcessIdentity
from acode.runner.grip import Grip, grip
from acode.runner.identity import start_time
from acode.runner.tree import descendants, signal_below
from acode.worker.known import known_workers

GENTLE_SECONDS = 1.0
"""How long tasks may take to end themselves once an end by force is wanted."""
RELEASE_SECONDS = 5.0
"""How long a worker may then take to kill its task and write down that it was released."""
KILL_SECONDS = 5.0
"""A killed process is gone by then, or stuck in the kernel."""


def halt_daemon(daemon: Grip) -> None:
    """Kill a daemon. Its workers notice and go on."""
    daemon.signal(signal.SIGKILL)
    if not daemon.ended(KILL_SECONDS):
        raise WorkerTimeout(f"the daemon (pid {daemon.process.pid}) cannot be killed")


def living_workers(run_dir: str) -> list[ProcessIdentity]:
    """Workers that still run, whether a daemon looks after them or not."""
    return [process for _, process in known_workers(run_dir) if _lives(process)]


def _lives(process: ProcessIdentity) -> bool:
    held = grip(process)
    if held is not None:
        held.close()
    return held is not None


def halt_workers(run_dir: str) -> int:
    """End the workers of a daemon that is gone; their tasks are released. Says how many."""
    with ExitStack() as stack:
        held = [grip(process) for _, process in known_workers(run_dir)]
        workers = [stack.enter_context(each) for each in held if each is not None]
        count = len(workers)
        # Asked twice, a worker kills its task and spools the release for the next daemon.
        for seconds in (GENTLE_SECONDS, RELEASE_SECONDS):
            workers = _ask_to_end(workers, seconds)
        for worker in workers:
            _kill(worker)
    for worker_id, process in known_workers(run_dir):
        if not _lives(process):
            remove_group(run_dir, worker_id)
    return count


def _ask_to_end(workers: list[Grip], seconds: float) -> list[Grip]:
    for worker in workers:
        worker.signal(signal.SIGTERM)
        worker.signal(signal.SIGCONT)
    deadline = Deadline(seconds)
    return [worker for worker in workers if not worker.ended(deadline.left())]


def _kill(worker: Grip) -> None:
    """Kill one that does not listen, with all that it runs."""
    # Stopped first, so that it cannot take what happens to its task for the task's own end.
    worker.signal(signal.SIGSTOP)
    deadline = Deadline(KILL_SECONDS)
    # Whose parent has just been killed has another one now and is found in the next round.
    while _has_running(worker.process.pid) and deadline.rest(0.01):
        signal_below(worker.process.pid, signal.SIGKILL)
    worker.signal(signal.SIGKILL)
    if not worker.ended(KILL_SECONDS):
        raise WorkerTimeout(f"the worker with pid {worker.process.pid} cannot be killed")


def _has_running(pid: int) -> bool:
    return any(start_time(child) is not None for _, child in descendants(pid))
