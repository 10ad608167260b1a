"""`/api/workers`: the pool, its workers, its size, its health."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from acode.clock import from_iso, iso
from acode.errors import AmbiguousId, WorkerNotFound
from acode.gateway import shapes
from acode.gateway.common import AtDesk, WorkerId, says
from acode.gateway.desk import Desk
from acode.gateway.problems import answer
from acode.ids import normalise
from acode.model.state import Status, WorkerStatus
from acode.store.base import Counts
from acode.views import View

router = APIRouter(prefix="/api/workers", tags=["workers"])

WRONG = (WorkerStatus.ERROR, WorkerStatus.CRASHED, WorkerStatus.FAILED)


@router.get("/health", responses=says(shapes.Health), openapi_extra={"security": []})
async def health(desk: AtDesk) -> Response:
    """How the pool is. Needs no token."""
    return answer(health_view(*await desk.pool(), desk.clock.now()))


def health_view(pool: View, counts: Counts, now: int) -> View:
    """The health of a pool."""
    workers = [worker["status"] for worker in pool["workers"]]
    error = sum(status in WRONG for status in workers)
    oldest = counts.oldest_ready_at
    return {
        "status": _health(pool, len(workers) - error, error),
        "workers": {
            "total": len(workers),
            "active": workers.count(WorkerStatus.BUSY),
            "idle": workers.count(WorkerStatus.IDLE),
            "error": error,
        },
        "queue": {
            "depth": counts.by_status[Status.PENDING],
            "oldestTaskAge": max(0, now - oldest) if oldest is not None else 0,
        },
        "lastCheck": iso(now),
    }


def _health(pool: View, sound: int, error: int) -> str:
    if not pool["isRunning"] or not sound:
        return "unhealthy"
    return "degraded" if error or pool["backpressure"] or pool["circuits"] else "healthy"


@router.get("", responses=says(shapes.PoolShape))
async def pool(desk: AtDesk) -> Response:
    """The pool: the same as `worker status --json`."""
    return answer(await desk.all_pools())


@router.post("/scale", responses=says(shapes.Scaled, 504))
async def scale(desk: AtDesk, wish: shapes.Count) -> Response:
    """Give the pool another size."""
    return answer(await desk.daemon.scale(wish.count))


@router.post("/scale/up", responses=says(shapes.Scaled, 504))
async def scale_up(desk: AtDesk, wish: shapes.Step) -> Response:
    """Start more workers."""
    return answer(await desk.daemon.scale(await _size(desk) + wish.count))


@router.post("/scale/down", responses=says(shapes.Scaled, 504))
async def scale_down(desk: AtDesk, wish: shapes.Step) -> Response:
    """Stop some workers; idle ones go first, busy ones finish."""
    return answer(await desk.daemon.scale(max(0, await _size(desk) - wish.count)))


async def _size(desk: Desk) -> int:
    return int((await desk.daemon.ask("size"))["wanted"])


@router.post("/shutdown", responses=says(shapes.Stopping, status=202), status_code=202)
async def shutdown(desk: AtDesk, wish: shapes.Shutdown | None = None) -> Response:
    """Let running tasks finish, then stop the pool, and this API with it."""
    force = wish is not None and wish.force
    return answer(await desk.daemon.ask("stop", force=force), 202)


@router.get("/{worker_id}", responses=says(shapes.WorkerShape, 404, 409))
async def worker(desk: AtDesk, worker_id: WorkerId) -> Response:
    """One worker."""
    return answer(await _worker(desk, worker_id))


@router.get("/{worker_id}/metrics", responses=says(shapes.WorkerMetrics, 404, 409))
async def metrics(desk: AtDesk, worker_id: WorkerId) -> Response:
    """The figures of one worker."""
    found, now = await _worker(desk, worker_id), desk.clock.now()
    started = found["startedAt"]
    return answer(
        {
            "workerId": found["id"],
            "status": found["status"],
            "tasksCompleted": found["tasksCompleted"],
            "tasksFailed": found["tasksFailed"],
            "restarts": found["restarts"],
            "uptimeSeconds": (now - from_iso(started)) / 1000 if started else 0,
            "cpuPercent": found["resources"]["cpuPercent"],
            "memoryMb": round(found["resources"]["memoryBytes"] / (1 << 20), 1),
            "resources": found["resources"],
        }
    )


async def _worker(desk: Desk, text: str) -> Any:
    prefix = normalise(text)
    workers = (await desk.all_pools())["workers"]
    found = [each for each in workers if prefix and each["id"].startswith(prefix)]
    if not found:
        raise WorkerNotFound(f"no worker has an id that begins with {text!r}")
    if len(found) > 1:
        raise AmbiguousId(f"more than one worker has an id that begins with {prefix}")
    return found[0]
