"""What every route works with: the project, its store, its daemon."""

from acode.app import App
from acode.clock import Clock
from acode.errors import PoolNotRunning
from acode.gateway.daemon import Daemon
from acode.gateway.follow import Follower
from acode.hosts import known_host_id
from acode.keys import peer_key, token
from acode.model.task import Task
from acode.project import Project
from acode.settings import Settings
from acode.sockets import ring
from acode.store.base import Store
from acode.views import View, no_pool_view, shared_view

ACTOR = "http"


class Desk:
    """Made once, when the gateway starts."""

    def __init__(self, app: App, url: str) -> None:
        self.project: Project = app.project
        self.settings: Settings = app.settings
        self.guard, self.ceilings = app.guard, app.ceilings
        self.pinned = app.pinned
        self.clock: Clock = app.clock
        self.url = url
        self.token, self.peer_key = token(app.project), peer_key(app.project)
        self.daemon = Daemon(app.project.control_socket)
        self.store: Store = app.grouped_store()
        self.archive: Store = app.grouped_store()
        """The same store for long looks, so that short ones need not wait for them."""
        self.followers = 0
        """How many follow a log."""
        self.follower = Follower(self.project.feed_file, self.archive, self.daemon)

    async def all_pools(self) -> View:
        """`worker status --json`: this pool, and those of the hosts that share its queue."""
        view = await self.pool()
        if not self.settings.store.is_shared:
            return view
        return shared_view(view, await self.store.hosts(), known_host_id(self.project))

    async def pool(self) -> View:
        """The pool of this host."""
        try:
            view: View = await self.daemon.status()
        except PoolNotRunning:  # it is about to end, and we with it
            return no_pool_view(await self.store.counts(), self.settings.workers.mode)
        counts = await self.store.counts()
        fresh = no_pool_view(counts, "")
        return {**view, **{key: fresh[key] for key in ("pendingTasks", "runningTasks")}}

    async def task(self, text: str) -> str:
        """The id that somebody means: a whole one or a unique prefix."""
        return await self.store.resolve(text)

    async def cancel(self, task_id: str, *, force: bool, actor: str = ACTOR) -> Task:
        """Write the wish that a task should end."""
        done = await self.store.cancel(task_id, actor=actor, force=force)
        self.ring()
        return done

    async def retry(self, task_id: str, *, reset: bool = False, actor: str = ACTOR) -> Task:
        """Queue a task again."""
        done = await self.store.retry(task_id, actor=actor, reset_attempts=reset)
        self.ring()
        return done

    def ring(self) -> None:
        """Tell the pool that the store holds something new."""
        ring(self.project.bell_socket)

    async def close(self) -> None:
        """Let go of everything."""
        await self.follower.stop()
        await self.store.close()
        await self.archive.close()
