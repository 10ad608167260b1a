"""The engine put together: what runs a pool, without a word about who started it."""

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any

from acode.clock import Clock
from acode.engine.bell import Bell, BellSocket
from acode.engine.dispatcher import Dispatcher
from acode.engine.harbour import Harbour
from acode.engine.janitor import Janitor
from acode.engine.luggage import Luggage
from acode.engine.membership import RENEWALS, Membership
from acode.engine.monitor import Monitor
from acode.engine.orders import Orders
from acode.engine.pauses import Pauses
from acode.engine.pool import Pool
from acode.engine.recovery import Recoverer, Recovery
from acode.engine.reporting import Reporting
from acode.engine.roster import Roster
from acode.engine.service import Service
from acode.engine.status import worker_views
from acode.engine.supervisor import Supervisor
from acode.engine.sweeper import Sweeper
from acode.engine.tenure import Tenure
from acode.errors import StoreUnavailable
from acode.model.host import Host
from acode.model.priority import MINUTE_MS
from acode.observe.events import Events
from acode.policy.restart import Restart
from acode.project import Project
from acode.runner.caches import make_cache
from acode.runner.environment import STRICT, inheritable
from acode.settings import Settings
from acode.settings.derived import pool_ceilings
from acode.store.base import Counts
from acode.store.opening import open_store
from acode.store.sql.store import SqlStore
from acode.worker.config import WorkerConfig

TELLING_SECONDS = 0.02
"""Those who listen read files and feeds: they notice nothing, and the disk is asked less often,
and not while a command begins."""
COUNTS_SECONDS = 2.0
"""A store that takes longer is away."""


class Engine:
    """Every part, made once and in order."""

    def __init__(
        self,
        project: Project,
        settings: Settings,
        config: WorkerConfig,
        environ: Mapping[str, str],
        clock: Clock,
        events: Events,
        host: Host,
    ) -> None:
        self._settings = settings
        self._run_dir = project.run_dir
        self._counts: Counts | None = None
        self.store_answers = True
        self._prepare()
        self.bell = Bell()
        self.store = _store(project, settings, clock)
        self.roster = Roster(events)
        tenure = _tenure(host, settings)
        orders = Orders(settings, project.root, environ, tenure)
        pauses = Pauses(clock, project.pauses_file)
        common = (self.store, self.roster, orders, settings, clock, events)
        self._luggage = self._made_luggage(config, host, events)
        self.dispatcher = dispatcher = Dispatcher(
            *common, pauses, tenure, self.store.clock, self._luggage
        )
        self._harbour = Harbour(settings, config, environ, self.roster, clock, events)
        self._supervisor = Supervisor(
            self.roster,
            dispatcher,
            _inherited(environ, settings),
            config,
            _restart(settings),
            clock,
            events,
            self.bell,
            self._harbour,
        )
        self.pool = Pool(self.roster, self._supervisor, dispatcher, settings, clock, events)
        self.recovery = Recovery()
        parts = (self.store, self.roster, self._supervisor, dispatcher, events)
        self._recoverer = Recoverer(*parts, project.run_dir, tenure)
        self._sweeper = Sweeper(project, settings, events)
        self._supervisor.on_remains = self._sweeper.call
        janitor = Janitor(self.store, self.roster, project, settings, clock, events)
        watched = (self.roster, dispatcher, orders, pool_ceilings(settings))
        self.monitor = Monitor(*watched, project.agent_dir, events, self.bell)
        self._bell_socket: BellSocket | None = None
        self.reporting = Reporting(
            project, settings, self.store, self.roster, dispatcher, clock, events
        )
        self.membership = Membership(
            self.store, host, tenure, self.roster, dispatcher, events, self.bell, self._published
        )
        self._services = self._made_services(janitor)

    def _made_luggage(self, config: WorkerConfig, host: Host, events: Events) -> Luggage | None:
        """Where others may go on with what was begun here."""
        if not self._settings.store.is_shared:
            return None
        rest = self._settings.workers.lease_seconds / RENEWALS
        return Luggage(self.store, self.roster, config, host.id, rest, events)

    def _made_services(self, janitor: Janitor) -> list[Service]:
        events = self.roster.events
        self._staying = Service("membership", self.membership.tick, events)
        services = [
            Service("dispatcher", self.dispatcher.tick, events, self.bell),
            Service("monitor", self.monitor.tick, events),
            Service("containers", self._harbour.tick, events),
            Service("health", self.pool.watch_health, events),
            Service("janitor", janitor.tick, events),
            Service("sweeper", self._sweeper.tick, events, self._sweeper.bell),
        ]
        if self._luggage is not None:
            services.append(Service("luggage", self._luggage.tick, events))
        if self._settings.autoscale.enabled:
            services.append(Service("autoscaler", self.pool.autoscale, events))
        return services

    def _published(self) -> dict[str, Any]:
        """What other hosts are told of this pool."""
        return {"workers": self.workers()}

    def workers(self) -> list[dict[str, Any]]:
        """What there is to say of each worker."""
        return worker_views(self.roster, self.monitor, self.membership.host.name)

    async def counts(self) -> Counts:
        """The queue at a glance; as it was when the store last answered, if it does not."""
        try:
            async with asyncio.timeout(COUNTS_SECONDS):
                self._counts = await self.store.counts()
            self.store_answers = True
        except (StoreUnavailable, TimeoutError):
            if self._counts is None:
                raise
            self.store_answers = False
        return self._counts

    def _prepare(self) -> None:
        for folder in ("workers", "spool", "tmp", "checkpoints"):
            os.makedirs(os.path.join(self._run_dir, folder), exist_ok=True)
        if self._settings.sandbox.level == "write":
            make_cache(os.path.join(os.path.dirname(self._run_dir), "cache"))

    async def start(self, count: int) -> None:
        """Find out what became of everything, fill the pool, then begin to claim."""
        mode = self._settings.workers.mode
        await self.membership.join()
        await self.counts()
        if self._settings.store.is_shared:
            self._staying.start()
        self.recovery = await self._recoverer.recover(mode)
        self.membership.tell_workers()
        await self._harbour.adopt()
        self._bell_socket = BellSocket(os.path.join(self._run_dir, "bell.sock"), self.bell)
        await self.pool.fill(count, mode)
        if self._settings.store.is_shared:
            await self.membership.renew()  # the others see these workers at once
        await self.reporting.start()
        self.dispatcher.outbox.pause = TELLING_SECONDS
        self.dispatcher.accepting = True
        for service in self._services:
            service.start()

    async def stop(self, *, hurry: Callable[[], bool]) -> None:
        """Claim nothing more, drain, release, leave."""
        await self.pool.drain(hurry=hurry)
        self._sweeper.hurry()
        for service in self._services:
            await service.stop()
        await self._sweeper.finish()
        if self._bell_socket is not None:
            self._bell_socket.close()
            self._bell_socket = None
        await self._harbour.close()
        await self._supervisor.close()
        await self.dispatcher.outbox.close()
        await self.reporting.close()
        await self._staying.stop()
        await self.membership.leave()

    async def close(self) -> None:
        """Let go of the store; nobody may ask any more."""
        await self.store.close()


def _inherited(environ: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """What tasks see of the daemon's environment."""
    is_strict = settings.sandbox.level == "strict"
    return inheritable(
        environ,
        deny=settings.environment.deny,
        passed=settings.environment.pass_,
        only=STRICT if is_strict else ("*",),
    )


def _store(project: Project, settings: Settings, clock: Clock) -> SqlStore:
    ageing_ms = round(settings.tasks.ageing_minutes * MINUTE_MS)
    return open_store(settings.store.url, project.queue_db, clock, ageing_ms, grouped=True)


def _tenure(host: Host, settings: Settings) -> Tenure:
    seconds = settings.workers.lease_seconds if settings.store.is_shared else None
    return Tenure(host.id, seconds)


def _restart(settings: Settings) -> Restart:
    process = settings.workers.process
    return Restart(
        delay_ms=process.restart_delay_ms,
        max_delay_ms=process.max_restart_delay_ms,
        max_restarts=process.max_restarts,
    )
