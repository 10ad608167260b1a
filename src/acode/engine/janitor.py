"""The janitor: puts old things away, off the path of everything else."""

import asyncio
import os

from acode.clock import Clock
from acode.engine.roster import Roster
from acode.errors import AcodeError
from acode.model.event import PoolNote
from acode.observe.events import Events
from acode.observe.logcare import care
from acode.project import Project
from acode.settings import Settings
from acode.store.base import Store

DAY_MS = 86_400_000
REST_SECONDS = 600.0


class Janitor:
    """Archives finished tasks, forgets orphaned checkpoints, compresses and removes old logs."""

    def __init__(
        self,
        store: Store,
        roster: Roster,
        project: Project,
        settings: Settings,
        clock: Clock,
        events: Events,
    ) -> None:
        self._store = store
        self._roster = roster
        self._project = project
        self._settings = settings
        self._clock = clock
        self._events = events

    async def tick(self) -> float:
        """One round; how long to rest."""
        try:
            await self._tidy_store()
            await asyncio.to_thread(self._tidy_files)
        except (AcodeError, OSError) as error:
            self._events.emit(PoolNote("warning", f"tidying up failed: {error}"))
        return REST_SECONDS

    async def _tidy_store(self) -> None:
        now, tasks = self._clock.now(), self._settings.tasks
        done = await self._store.tidy(
            finished_before=now - round(tasks.keep_history_days * DAY_MS),
            steps_before=now - round(tasks.checkpoint_max_age_days * DAY_MS),
        )
        if done.archived or done.checkpoints:
            note = f"{done.archived} tasks archived, {done.checkpoints} checkpoints forgotten"
            self._events.emit(PoolNote("info", note))

    def _tidy_files(self) -> None:
        now, logs = self._clock.now(), self._project.logs_dir
        living = {f"worker-{slot.id}" for slot in self._roster}
        tasks = {slot.lease.task.id for slot in self._roster if slot.lease}
        for folder, over in (
            ("workers", lambda name: name not in living),
            ("tasks", lambda name: name not in tasks),
            ("", lambda _name: False),
        ):
            directory = os.path.join(logs, folder)
            if os.path.isdir(directory):
                care(directory, self._settings.logging, now, over)
        self._forget_checkpoint_files(now)

    def _forget_checkpoint_files(self, now: int) -> None:
        """Files that tasks left for their next attempt, long ago."""
        oldest = now - self._settings.tasks.checkpoint_max_age_days * DAY_MS
        directory = os.path.join(self._project.run_dir, "checkpoints")
        for entry in os.scandir(directory):
            if entry.stat(follow_symlinks=False).st_mtime * 1000 < oldest:
                os.unlink(entry.path)
