"""The daemon's log: every event as a line for people."""

from typing import assert_never

from acode.model.event import (
    PoolEvent,
    PoolNote,
    PoolScaled,
    TaskAssigned,
    TaskEnded,
    TaskRefused,
    WorkerCrashed,
    WorkerFailed,
    WorkerStarted,
    WorkerStatusChanged,
    WorkerStopped,
)
from acode.model.state import Status


def line_of(event: PoolEvent) -> tuple[str, str]:
    """Level and words of an event."""
    match event:
        case WorkerStarted(worker_id, pid, adopted):
            return "info", f"worker-{worker_id} {'adopted' if adopted else 'started'}, pid {pid}"
        case WorkerStopped(worker_id):
            return "info", f"worker-{worker_id} stopped"
        case WorkerCrashed(worker_id, reason, restart_in_ms):
            later = "" if restart_in_ms is None else f"; restart in {restart_in_ms / 1000:g} s"
            return "error", f"worker-{worker_id} crashed: {reason}{later}"
        case WorkerFailed(worker_id, reason):
            return "error", f"worker-{worker_id} failed and is replaced: {reason}"
        case WorkerStatusChanged(worker_id, status, task_id):
            return "debug", f"worker-{worker_id} is {status}" + (f" ({task_id})" if task_id else "")
        case TaskAssigned(task_id, worker_id, number, waited_ms):
            waited = f"after {waited_ms} ms"
            return "debug", f"task {task_id} attempt {number} to worker-{worker_id} {waited}"
        case TaskEnded(task_id, worker_id, number, status, reason):
            told = f"task {task_id} attempt {number} on worker-{worker_id}: {reason}"
            # What goes well is in the history of the task; a line for each would drown the rest.
            level = "debug" if status is Status.COMPLETED else "info"
            return level, f"{told}; the task is {status}"
        case TaskRefused(task_id, worker_id):
            return "warning", f"a late result of worker-{worker_id} for task {task_id} is not used"
        case PoolScaled(was, now, reason):
            return "info", f"pool scaled from {was} to {now}: {reason}"
        case PoolNote(level, message):
            return level, message
        case _:
            assert_never(event)
