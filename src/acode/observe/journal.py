"""The daemon's log: every event as a line for people."""

from typing import assert_never

from acode.model.event import (
    BackpressureChanged,
    LimitExceeded,
    PoolEvent,
    PoolNote,
    PoolScaled,
    TaskAssigned,
    TaskEnded,
    TaskRefused,
    WorkerCrashed,
    WorkerFailed,
    WorkerStalled,
    WorkerStarted,
    WorkerStatusChanged,
    WorkerStopped,
)
from acode.model.limits import Over
from acode.model.state import Status

_LEVELS: dict[type[PoolEvent], str] = {
    WorkerStarted: "info",
    WorkerStopped: "info",
    WorkerCrashed: "error",
    WorkerFailed: "error",
    WorkerStalled: "error",
    WorkerStatusChanged: "debug",
    TaskAssigned: "debug",
    TaskEnded: "info",
    TaskRefused: "warning",
    LimitExceeded: "warning",
    BackpressureChanged: "warning",
    PoolScaled: "info",
}


def level_of(event: PoolEvent) -> str:
    """How much an event matters. Asked before its words: most are not worth any."""
    if isinstance(event, PoolNote):
        return event.level
    if isinstance(event, TaskEnded) and event.status is Status.COMPLETED:
        # What goes well is in the history of the task; a line for each would drown the rest.
        return "debug"
    return _LEVELS[type(event)]


def line_of(event: PoolEvent) -> str:
    """The words of an event."""
    match event:
        case WorkerStarted(worker_id, pid, adopted):
            return f"worker-{worker_id} {'adopted' if adopted else 'started'}, pid {pid}"
        case WorkerStopped(worker_id):
            return f"worker-{worker_id} stopped"
        case WorkerCrashed(worker_id, reason, restart_in_ms):
            later = "" if restart_in_ms is None else f"; restart in {restart_in_ms / 1000:g} s"
            return f"worker-{worker_id} crashed: {reason}{later}"
        case WorkerFailed(worker_id, reason):
            return f"worker-{worker_id} failed and is replaced: {reason}"
        case WorkerStalled(worker_id, task_id, silent_ms):
            doing = f" with task {task_id}" if task_id else ""
            return f"worker-{worker_id}{doing} is silent since {silent_ms / 1000:g} s"
        case WorkerStatusChanged(worker_id, status, task_id):
            return f"worker-{worker_id} is {status}" + (f" ({task_id})" if task_id else "")
        case TaskAssigned(task_id, worker_id, number, waited_ms):
            waited = f"after {waited_ms} ms"
            return f"task {task_id} attempt {number} to worker-{worker_id} {waited}"
        case TaskEnded(task_id, worker_id, number, status, reason):
            told = f"task {task_id} attempt {number} on worker-{worker_id}: {reason}"
            return f"{told}; the task is {status}"
        case TaskRefused(task_id, worker_id):
            return f"a late result of worker-{worker_id} for task {task_id} is not used"
        case LimitExceeded(task_id, worker_id, what, limit, used, action):
            told = f"task {task_id} on worker-{worker_id} went over its limit"
            return f"WORKER-005: {told}: {Over(what, limit, used)} ({action})"
        case BackpressureChanged(None):
            return "tasks are begun again"
        case BackpressureChanged(reason):
            return f"no further task is begun: {reason}"
        case PoolScaled(was, now, reason):
            return f"pool scaled from {was} to {now}: {reason}"
        case PoolNote(_, message):
            return message
        case _:
            assert_never(event)
