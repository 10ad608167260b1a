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
from acode.store.base import Counts, Store, TaskQuery
from acode.views import View, no_pool_view, queue_in_pool, shared_view

ACTOR = "http"
SHORT = 200
"""So many rows are read in no time worth speaking of."""
MAX_KNOWN = 256


class Desk:
    """Made once, when the gateway starts."""

    def __init__(self, app: App, url: str) -> None:
        self.project: Project = app.project
        self.settings: Settings = app.settings
        self.guard, self.ceilings = app.guard, app.ceilings
        self.pinned = app.pinned
        self.clock: Clock = app.clock
        self.url = url
        self.rope = app.rope
        self.token, self.peer_key = token(app.project), peer_key(app.project)
        self.daemon = Daemon(app.project.control_socket)
        self.store: Store = app.grouped_store()
        self.archive: Store = app.grouped_store()
        """The same store for long looks, so that short ones need not wait for them."""
        self.glance: Store = app.glance()
        """The same for short looks, without a thread in between: each would wait for its turn."""
        self.followers = 0
        """How many follow a log."""
        self._known: dict[bytes, TaskQuery] = {}
        """Short looks by the text in which somebody asked for them; it need not be read again."""
        self.follower = Follower(self.project.feed_file, self.archive, self.daemon)

    async def all_pools(self) -> View:
        """`worker status --json`: this pool, and those of the hosts that share its queue."""
        view, _ = await self.pool()
        if not self.settings.store.is_shared:
            return view
        return shared_view(view, await self.store.hosts(), known_host_id(self.project))

    async def pool(self) -> tuple[View, Counts]:
        """The pool of this host, and the queue."""
        try:
            view: View = await self.daemon.status()
        except PoolNotRunning:  # it is about to end, and we with it
            counts = await self.glance.counts()
            return no_pool_view(counts, self.settings.workers.mode), counts
        counts = await self.glance.counts()
        return {**view, **queue_in_pool(counts)}, counts

    def learn(self, text: bytes, query: TaskQuery) -> None:
        """Remember what a query string means, now that it was read and found good."""
        if not _is_short(query):
            return
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        self._known[text] = query

    def known(self, text: bytes) -> TaskQuery | None:
        """What a query string means, if somebody has asked for the same before."""
        return self._known.get(text)

    async def task(self, text: str) -> str:
        """The id that somebody means: a whole one or a unique prefix."""
        return await self.glance.resolve(text)

    async def find(self, query: TaskQuery) -> list[Task]:
        """Tasks that fit; looks that may take long keep nobody waiting."""
        return await (self.glance if _is_short(query) else self.archive).find(query)

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
        self.rope.pull()

    async def close(self) -> None:
        """Let go of everything."""
        await self.follower.stop()
        await self.store.close()
        await self.archive.close()
        await self.glance.close()
        self.rope.close()


def _is_short(query: TaskQuery) -> bool:
    filters = query.text or query.workstream_id or query.priority or len(query.statuses) > 1
    return not filters and query.sort.by == "created" and query.offset + query.limit <= SHORT
