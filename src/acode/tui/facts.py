"""What the terminal dashboard shows: read from the store and the daemon, never guessed."""

import asyncio
from typing import NamedTuple

from acode.app import App
from acode.engine.client import ask
from acode.errors import PoolNotRunning, WorkerTimeout
from acode.hosts import known_host_id
from acode.human import number
from acode.model.state import Status
from acode.model.task import Record, Task
from acode.observe.logread import Tail
from acode.store.base import Counts, Sort, Store, TaskQuery
from acode.views import View, is_at_work, no_pool_view, shared_view
from acode.why import Case, reasons

SHOWN = 200
LOG_LINES = 500
MAX_RUNNING = 1_000
SLOW_SECONDS = 120.0
"""Scaling waits until the new workers are up."""
ACTOR = "tui"


class Facts(NamedTuple):
    """One look."""

    pool: View
    counts: Counts
    tasks: list[Task]
    running: dict[str, Task]
    now: int


class Source:
    """Where the facts come from."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._store: Store = app.grouped_store()

    async def look(self, text: str, status: Status | None) -> Facts:
        """How things stand, with the tasks that fit."""
        counts = await self._store.counts()
        statuses = () if status is None else (status,)
        query = TaskQuery(
            text=text or None, statuses=statuses, limit=SHOWN, sort=Sort(reverse=True)
        )
        tasks = await self._store.find(query)
        found = await self._store.find(TaskQuery(statuses=(Status.RUNNING,), limit=MAX_RUNNING))
        running = {task.id: task for task in found}
        return Facts(await self._pool(counts), counts, tasks, running, self._app.clock.now())

    async def _pool(self, counts: Counts) -> View:
        try:
            view: View = await asyncio.to_thread(ask, self._app.project.control_socket, "status")
        except (PoolNotRunning, WorkerTimeout):
            view = no_pool_view(counts, self._app.settings.workers.mode)
        if not self._app.settings.store.is_shared:
            return view
        return shared_view(view, await self._store.hosts(), known_host_id(self._app.project))

    async def task(self, task_id: str) -> tuple[Record, list[str], list[str]]:
        """One task, why it is where it is, and the last lines that it printed."""
        record = await self._store.record(task_id)
        pool = await self._pool(await self._store.counts())
        case = Case(record, self._store, self._app.clock.now(), pool if is_at_work(pool) else None)
        return record, await reasons(case), await asyncio.to_thread(self._log, task_id)

    def _log(self, task_id: str) -> list[str]:
        tail = Tail(self._app.project.task_log(task_id))
        try:
            lines = [*tail.poll(), *tail.finish()]
            return [line.text for line in lines[-LOG_LINES:]]
        finally:
            tail.close()

    async def cancel(self, task_id: str) -> None:
        """Write the wish that a task should end."""
        await self._store.cancel(task_id, actor=ACTOR)
        self._app.rope.pull()

    async def retry(self, task_id: str) -> None:
        """Queue a task again."""
        await self._store.retry(task_id, actor=ACTOR)
        self._app.rope.pull()

    async def scale(self, step: int) -> str:
        """Give the pool a worker more or fewer; what came of it."""

        def scale() -> str:
            socket = self._app.project.control_socket
            wanted = int(ask(socket, "size")["wanted"]) + step
            done = ask(socket, "scale", seconds=SLOW_SECONDS, count=max(0, wanted))
            return str(done["message"] or f"the pool has {number(done['count'], 'worker')}")

        return await asyncio.to_thread(scale)

    async def pause(self) -> bool:
        """Pause the queue or let it go on; whether it is paused now."""
        paused = not (await self._store.counts()).paused
        await self._store.pause(paused, actor=ACTOR)
        self._app.rope.pull()
        return paused

    async def close(self) -> None:
        """Let go of the store."""
        await self._store.close()
        await self._app.close()
