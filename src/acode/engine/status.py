"""What the daemon says of itself, in the shapes of the contract."""

from collections.abc import Sequence
from typing import Any

from acode.clock import iso
from acode.engine.dispatcher import Dispatcher
from acode.engine.monitor import Monitor
from acode.engine.roster import Roster, Slot
from acode.model.state import Status
from acode.observe.tallies import used_by, worker_counts
from acode.store.base import Counts

View = dict[str, Any]


def pool_view(
    host: str,
    workers: Sequence[View],
    counts: Counts,
    dispatcher: Dispatcher,
    uptime_ms: int,
    mode: str,
) -> View:
    """`worker status --json`."""
    return {
        "isRunning": True,
        "mode": mode,
        **worker_counts(workers),
        "pendingTasks": counts.by_status[Status.PENDING],
        "runningTasks": counts.by_status[Status.RUNNING],
        "uptimeSeconds": round(uptime_ms / 1000, 3),
        "resources": used_by(workers),
        "backpressure": dispatcher.backpressure,
        "apiUrl": None,
        "circuits": dispatcher.circuits.seen(),
        "pauses": dispatcher.pauses.seen(),
        "host": host,
        "hosts": [],
        "workers": workers,
    }


def worker_views(roster: Roster, monitor: Monitor, host: str) -> list[View]:
    """The workers of this host."""
    return [worker_view(slot, monitor.resources(slot), host) for slot in roster]


def worker_view(slot: Slot, used: dict[str, float], host: str) -> View:
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
        "host": host,
    }
