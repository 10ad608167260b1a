"""A worker: a long-lived process that runs one attempt at a time."""

import msgspec

from acode.model.state import WorkerStatus
from acode.model.task import Mode


class ProcessIdentity(msgspec.Struct, frozen=True, rename="camel"):
    """Names one process for ever: a pid alone is used again, all three together are not."""

    pid: int
    start_time: int
    boot_id: str


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """One worker as the pool knows it."""

    id: str
    status: WorkerStatus
    mode: Mode
    process: ProcessIdentity | None = None
    current_task_id: str | None = None
    started_at: int | None = None
    last_heartbeat: int | None = None
    tasks_completed: int = 0
    tasks_failed: int = 0
    restarts: int = 0
    container_id: str | None = None
