"""What the daemon says of itself, in the shapes of the contract."""

from typing import Any

from acode.clock import iso
from acode.engine.dispatcher import Dispatcher
from acode.engine.roster import LIVE, Roster, Slot
from acode.model.state import Status, WorkerStatus
from acode.runner.usage import Sampler
from acode.store.base import Counts

_MOVING = (WorkerStatus.STARTING, WorkerStatus.STOPPING)
_ENDED = (WorkerStatus.STOPPED, WorkerStatus.FAILED)


def pool_view(
    roster: Roster,
    counts: Counts,
    dispatcher: Dispatcher,
    sampler: Sampler,
    uptime_ms: int,
    mode: str,
) -> dict[str, Any]:
    """`worker status --json`."""
    used = sampler.sample({s.id: s.process.pid for s in roster if s.process and s.status in LIVE})
    workers = [worker_view(slot, used.get(slot.id)) for slot in roster]
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


def worker_view(slot: Slot, used: dict[str, float] | None) -> dict[str, Any]:
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
        "resources": used or {"cpuPercent": 0.0, "memoryBytes": 0, "diskBytes": 0},
    }
