"""The one place that knows every part: from a directory to a project, its settings, its store."""

import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from acode import project as projects
from acode.clock import Clock, SystemClock
from acode.model.priority import MINUTE_MS
from acode.store.base import Store

if TYPE_CHECKING:
    from acode.model.task import Submission
    from acode.policy.commands import Guard
    from acode.policy.limits import Ceilings
    from acode.settings import Settings
    from acode.sockets import Rope
    from acode.store.sql.store import SqlStore


class App:
    """One project and its parts, each made when it is first needed."""

    def __init__(
        self,
        project: projects.Project,
        *,
        config: str | None,
        environ: Mapping[str, str],
        clock: Clock | None = None,
    ) -> None:
        self.project = project
        self.clock = clock or SystemClock()
        self._config = config
        self._environ = environ
        self._store: SqlStore | None = None

    @classmethod
    def find(cls, *, project: str | None, config: str | None, environ: Mapping[str, str]) -> "App":
        """The app of the directory that was named, or that we stand in."""
        return cls(
            projects.find(os.getcwd(), project, environ),
            config=config,
            environ=environ,
        )

    @property
    def config_file(self) -> str:
        """Where settings are read from."""
        return self._config or self.project.config_file

    @cached_property
    def settings(self) -> "Settings":
        """What the file and the environment say. Only a file that was named must be there."""
        from acode.settings import load

        is_there = self._config is not None or os.path.exists(self.config_file)
        return load(self.config_file if is_there else None, self._environ)

    @cached_property
    def guard(self) -> "Guard":
        """What refuses commands that nobody means."""
        from acode.policy.commands import Guard

        settings = self.settings
        agents = {name: agent.command for name, agent in settings.agents.items()}
        return Guard(settings.sandbox.blocked_commands, agents, self.project.root)

    @cached_property
    def ceilings(self) -> "Ceilings":
        """The most that a task may ask for."""
        from acode.settings.derived import task_ceilings

        return task_ceilings(self.settings)

    @cached_property
    def rope(self) -> "Rope":
        """Tells a running pool that the store holds something new."""
        from acode.sockets import Rope

        return Rope(self.project.bell_socket)

    def store(self) -> "SqlStore":
        """The store, made if it is not there yet."""
        if self._store is None:
            self.project.prepare()
            self._store = self._open()
        return self._store

    def existing_store(self) -> "SqlStore | None":
        """The store if there is one; a look never makes a file."""
        if self._store is None and self._is_there():
            self._store = self._open()
        return self._store

    def _is_there(self) -> bool:
        from acode.store.opening import file_of, is_shared

        url = self.settings.store.url
        return is_shared(url) or os.path.exists(file_of(url, self.project.queue_db))

    def reader(self) -> Store:
        """A store to look into: an empty one where there is none."""
        # Whoever asks the daemon only never pays for this import.
        from acode.store.sqlite import SqliteStore

        return self.existing_store() or SqliteStore.open(":memory:", self.clock, grouped=False)

    def glance(self) -> "SqlStore":
        """A store for many short looks: what it sees may not be on disk yet."""
        if self.settings.store.is_shared:
            return self.grouped_store()  # the server may take its time
        self.project.prepare()
        store = self._open()
        store.hasty = True
        return store

    def grouped_store(self) -> "SqlStore":
        """A store for a process that serves many: the caller closes it."""
        self.project.prepare()
        return self._open(grouped=True)

    def _open(self, *, grouped: bool = False) -> "SqlStore":
        from acode.store.opening import open_store

        settings = self.settings
        return open_store(
            settings.store.url,
            self.project.queue_db,
            self.clock,
            round(settings.tasks.ageing_minutes * MINUTE_MS),
            grouped=grouped,
        )

    def pinned(self, submissions: "list[Submission]") -> "list[Submission]":
        """What is about to be added; where machines share the queue, with the commit it means."""
        if not self.settings.store.is_shared:
            return submissions
        from acode.workspace.pinning import pin

        return pin(submissions, self.project.root)

    async def close(self) -> None:
        """Let go of what was opened."""
        if self._store is not None:
            await self._store.close()
            self._store = None
        if "rope" in self.__dict__:
            self.rope.close()
