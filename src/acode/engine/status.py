"""What the daemon says of itself, in the shapes of the contract."""

from typing import Any

from acode.clock import iso
from acode.engine.dispatcher import Dispatcher
from acode.engine.monitor import Monitor
from acode.engine.roster import Roster, Slot
from acode.model.state import Status, WorkerStatus
from acode.store.base import Counts

_MOVING = (WorkerStatus.STARTING, WorkerStatus.STOPPING)
_ENDED = (WorkerStatus.STOPPED, WorkerStatus.FAILED)


def pool_view(
    roster: Roster,
    counts: Counts,
    dispatcher: Dispatcher,
    monitor: Monitor,
    uptime_ms: int,
    mode: str,
) -> dict[str, Any]:
    """`worker status --json`."""
    workers = [worker_view(slot, monitor.resources(slot)) for slot in roster]
    return {
        "isRunning": True,
        "mode": mode,
        "activeCount": roster.count(lambda slot: slot.status not in _ENDED),
        "idleCount": roster.count(lambda slot: slot.status is WorkerStatus.IDLE),
        "busyCount": roster.count(lambda slot: slot.status is WorkerStatus.BUSY),
        "transitioningCount": roster.count(lambda slot: slot.status in _MOVING),
        "pendingTasks": counts.by_status[Status.PENDING],
        "runningTasks": counts.by_status[Status.RUNNING],
        "uptimeSeconds": round(uptime_ms / 1000, 3),
        "resources": {
            key: round(sum(worker["resources"][key] for worker in workers), 1)
            for key in ("cpuPercent", "memoryBytes", "diskBytes")
        },
        "backpressure": dispatcher.backpressure,
        "apiUrl": None,
        "circuits": dispatcher.circuits.seen(),
        "pauses": dispatcher.pauses.seen(),
        "workers": workers,
    }


def worker_view(slot: Slot, used: dict[str, float]) -> dict[str, Any]:
    """One worker of `worker list --json`."""
    seen = slot.seen()
    return {
        "id": seen.id,
        "status": seen.status,
        "pid": seen.process.pid if seen.process else None,
        "mode": seen.mode,
        "currentTaskId": seen.current_task_id,
        "startedAt": iso(seen.started_at),
        "lastHeartbeat": iso(seen.last_heartbeat),
        "tasksCompleted": seen.tasks_completed,
        "tasksFailed": seen.tasks_failed,
        "restarts": seen.restarts,
        "containerId": seen.container_id,
        "resources": used,
    }
