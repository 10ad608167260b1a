"""`/metrics`: Prometheus text with the names of the contract, dots as underscores."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from fastapi import APIRouter
from fastapi.responses import Response
from prometheus_client import generate_latest

from acode.errors import PoolNotRunning, WorkerTimeout
from acode.gateway import shapes
from acode.gateway.common import AtDesk, Responses, says
from acode.gateway.desk import Desk
from acode.gateway.workers import health_view
from acode.model.state import Status, WorkerStatus
from acode.store.base import Counts
from acode.views import View

router = APIRouter(tags=["metrics"])

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_STATES = {"closed": 0, "halfOpen": 1, "open": 2}
_TEXT: Responses = {
    **says(shapes.Health),
    200: {
        "description": "Prometheus text",
        "content": {CONTENT_TYPE: {"schema": {"type": "string"}}},
    },
}


class Sample(NamedTuple):
    """One value."""

    value: float
    labels: Mapping[str, str] = MappingProxyType({})
    suffix: str = ""


class Family(NamedTuple):
    """All values of one name."""

    name: str
    kind: str
    help: str
    samples: Iterable[Sample]


@router.get("/metrics", responses=_TEXT)
async def metrics(desk: AtDesk) -> Response:
    """Everything that can be measured, for Prometheus."""
    # The client library would append _total to the counters; the contract names them exactly.
    text = "".join(_lines(await families(desk)))
    return Response(text.encode() + generate_latest(), media_type=CONTENT_TYPE)


async def families(desk: Desk) -> list[Family]:
    """All families, read now."""
    pool, counts = await desk.pool()
    try:
        figures = await desk.daemon.recent("figures")
        recovery = await desk.daemon.recent("recovery")
    except (PoolNotRunning, WorkerTimeout):
        figures, recovery = None, {}
    health = health_view(pool, counts, desk.clock.now())
    return [
        *_pool(pool, health),
        *_queue(counts, health),
        *(_history(figures) if figures else ()),
        *_workers(pool["workers"]),
        *_trouble(pool, recovery),
    ]


def _gauge(name: str, words: str, value: float) -> Family:
    return Family(name, "gauge", words, [Sample(value)])


def _counter(name: str, words: str, value: float) -> Family:
    return Family(name, "counter", words, [Sample(value)])


def _pool(pool: View, health: View) -> Iterator[Family]:
    workers = health["workers"]
    yield _gauge("pool_up", "Whether the worker pool runs", pool["isRunning"])
    yield _gauge("pool_workers_total", "Total workers in pool", workers["total"])
    yield _gauge("pool_workers_active", "Workers executing tasks", workers["active"])
    yield _gauge("pool_workers_idle", "Workers waiting for tasks", workers["idle"])
    yield _gauge("pool_workers_error", "Workers in error state", workers["error"])
    yield _gauge("pool_uptime_seconds", "Since the pool was started", pool["uptimeSeconds"])
    yield _gauge("pool_cpu_percent", "Of one core, all workers", pool["resources"]["cpuPercent"])
    memory = pool["resources"]["memoryBytes"] / (1 << 20)
    yield _gauge("pool_memory_mb", "Memory of all workers", round(memory, 1))


def _queue(counts: Counts, health: View) -> Iterator[Family]:
    yield _gauge("pool_tasks_queued", "Tasks waiting in queue", health["queue"]["depth"])
    yield _gauge("pool_queue_paused", "Whether the queue is paused", counts.paused)
    yield _gauge(
        "pool_queue_oldest_task_age_ms",
        "How long the oldest waiting task has waited",
        health["queue"]["oldestTaskAge"],
    )
    yield Family(
        "pool_tasks",
        "gauge",
        "Tasks in the store",
        [Sample(counts.by_status[status], {"status": status.value}) for status in Status],
    )


def _history(figures: View) -> Iterator[Family]:
    ended, counters = figures["ended"], figures["counters"]

    def became(status: Status) -> int:
        return sum(each["count"] for each in ended if each["status"] == status)

    yield _counter("pool_tasks_completed", "Tasks completed (success)", became(Status.COMPLETED))
    yield _counter("pool_tasks_failed", "Tasks failed", became(Status.FAILED))
    yield _counter(
        "pool_tasks_cancelled", "Tasks cancelled while they ran", became(Status.CANCELLED)
    )
    yield _counter("pool_tasks_retried", "Attempts that are tried again", became(Status.PENDING))
    yield _counter("pool_tasks_released", "Attempts that do not count", counters.get("released", 0))
    yield _counter("pool_tasks_submitted", "Tasks added", counters.get("submitted", 0))
    yield _gauge(
        "pool_queue_high_water", "The most tasks that were seen waiting", figures["queueHighWater"]
    )
    yield _counter("pool_worker_crashes", "Workers that died", counters.get("crashed", 0))
    yield _counter("pool_worker_restarts", "Restarts of workers", counters.get("restarted", 0))
    yield Family(
        "pool_tasks_duration_ms",
        "histogram",
        "Task execution time",
        [
            sample
            for kind, each in figures["durations"].items()
            for sample in _buckets(kind, each, figures["boundsMs"])
        ],
    )


def _buckets(kind: str, each: View, bounds: list[int]) -> Iterator[Sample]:
    count = 0
    for bound, more in zip([*map(str, bounds), "+Inf"], each["buckets"], strict=True):
        count += more
        yield Sample(count, {"type": kind, "le": bound}, "_bucket")
    yield Sample(each["totalMs"], {"type": kind}, "_sum")
    yield Sample(count, {"type": kind}, "_count")


def _workers(workers: list[Any]) -> Iterator[Family]:
    def each(name: str, kind: str, words: str, value: Any) -> Family:
        samples = [Sample(value(worker), {"worker": worker["id"]}) for worker in workers]
        return Family(name, kind, words, samples)

    mb = 1 << 20
    yield each(
        "worker_memory_mb",
        "gauge",
        "Per-worker memory usage",
        lambda worker: round(worker["resources"]["memoryBytes"] / mb, 1),
    )
    yield each(
        "worker_cpu_percent",
        "gauge",
        "Per-worker CPU usage",
        lambda worker: worker["resources"]["cpuPercent"],
    )
    yield each(
        "worker_busy",
        "gauge",
        "Whether the worker executes a task",
        lambda worker: worker["status"] == WorkerStatus.BUSY,
    )
    for key, name in (("tasksCompleted", "completed"), ("tasksFailed", "failed")):
        yield each(
            f"worker_tasks_{name}",
            "counter",
            f"Tasks that the worker {name}",
            lambda worker, key=key: worker[key],
        )
    yield each(
        "worker_restarts", "counter", "Restarts of the worker", lambda worker: worker["restarts"]
    )


def _trouble(pool: View, recovery: View) -> Iterator[Family]:
    yield _gauge("pool_backpressure", "Whether no task is begun", pool["backpressure"] is not None)
    yield Family(
        "pool_circuit_state",
        "gauge",
        "Circuits that are not closed: 1 half open, 2 open",
        [
            Sample(
                _STATES.get(each["status"], 2),
                {"type": each["type"], "workstream": each["workstreamId"] or ""},
            )
            for each in pool["circuits"]
        ],
    )
    yield Family(
        "pool_recovered_tasks",
        "gauge",
        "What the last start found",
        [
            Sample(len(found), {"outcome": outcome})
            for outcome, found in recovery.items()
            if isinstance(found, list)
        ],
    )


def _lines(found: Iterable[Family]) -> Iterator[str]:
    for family in found:
        yield f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n"
        for value, labels, suffix in family.samples:
            yield f"{family.name}{suffix}{_labels(labels)} {_number(value)}\n"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
