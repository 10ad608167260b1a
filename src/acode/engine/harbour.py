"""Where containers come from, for those who may never need one: loaded with the first."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from acode.clock import Clock
from acode.engine.port import Port
from acode.engine.roster import Roster, Slot
from acode.errors import AcodeError, ConfigError
from acode.model.event import PoolNote
from acode.model.task import Mode
from acode.observe.events import Events
from acode.runner.container.seat import Wanted
from acode.settings import Settings
from acode.worker.config import WorkerConfig
from acode.worker.messages import Assignment
from acode.worker.wire import FrameType

if TYPE_CHECKING:
    from acode.engine.berths import Berths
    from acode.engine.boarding import Boarding, OnEnded

IDLE_SECONDS = 5.0


class Harbour:
    """The containers of a pool, as far as there are any."""

    def __init__(
        self,
        settings: Settings,
        config: WorkerConfig,
        environ: Mapping[str, str],
        roster: Roster,
        clock: Clock,
        events: Events,
    ) -> None:
        self._settings = settings
        self._config = config
        self._environ = environ
        self._roster = roster
        self.clock = clock
        self.events = events
        self._berths: Berths | None = None
        # Looked at now: the recovery tidies up there.
        self._had_some = self._has_left_some()

    @property
    def berths(self) -> "Berths":
        """Made when it is first needed."""
        if self._berths is None:
            from acode.engine.berths import Berths
            from acode.engine.fitting import Fitting

            keep = self._settings.workers.docker.keep_containers
            fitting = Fitting(self._settings, self._config, keep=keep)
            self._berths = Berths(fitting, self._environ, self._roster, self.events)
        return self._berths

    @property
    def may_do_without(self) -> bool:
        """Whether a task may run as a process where no container can be had."""
        return self._settings.workers.docker.fallback_to_local

    def port(self, slot: Slot, inner: Port, on_ended: "OnEnded") -> Port:
        """The way to a worker, by way of its container where a task wants one."""
        return Gangway(self, slot, inner, on_ended)

    async def prepare(self, slot: Slot) -> None:
        """A worker of this mode has its container before its first task."""
        if slot.mode is not Mode.DOCKER:
            return
        try:
            await self.berths.have(slot, Wanted())
        except AcodeError as error:
            if not self.may_do_without or _is_settled(error):
                raise
            note = f"{error.code}: {error}; worker-{slot.id} goes on with processes"
            self.events.emit(PoolNote("warning", note))

    async def adopt(self) -> None:
        """Find what an earlier daemon left: containers of living workers, and of nobody."""
        if self._settings.workers.mode is Mode.DOCKER or self._had_some:
            await self.berths.adopt()

    def _has_left_some(self) -> bool:
        directory = f"{self._config.run_dir}/containers"
        return os.path.isdir(directory) and bool(os.listdir(directory))

    def spend(self, worker_id: str) -> None:
        """Its container is of no more use."""
        if self._berths is not None:
            self._berths.spend(worker_id)

    async def let_go(self, worker_id: str) -> None:
        """The worker is gone for good."""
        if self._berths is not None:
            await self._berths.let_go(worker_id)

    async def tick(self) -> float:
        """One look at every container; how long to rest."""
        return IDLE_SECONDS if self._berths is None else await self._berths.tick()

    async def close(self) -> None:
        """Remove them all."""
        if self._berths is not None:
            await self._berths.close()


def _is_settled(error: AcodeError) -> bool:
    """Whether it is not for want of an engine: then nothing is gained by doing without."""
    from acode.runner.container.api import EngineError
    from acode.runner.container.images import ImageUnavailable
    from acode.runner.container.life import NoShell

    refused = isinstance(error, EngineError) and error.status != 0
    return refused or isinstance(error, ImageUnavailable | NoShell | ConfigError)


class Gangway:
    """A port that learns to wait for containers with the first task that wants one."""

    def __init__(self, harbour: Harbour, slot: Slot, inner: Port, on_ended: "OnEnded") -> None:
        self._harbour = harbour
        self._slot = slot
        self._inner = inner
        self._on_ended = on_ended
        self._boarding: Boarding | None = None

    def send(self, kind: FrameType, id_: str, payload: object) -> None:
        """Pass it on, now or when there is a container."""
        if isinstance(payload, Assignment) and payload.wanted is not None:
            self._board().send(kind, id_, payload)
        else:
            (self._boarding or self._inner).send(kind, id_, payload)

    def _board(self) -> "Boarding":
        if self._boarding is None:
            from acode.engine.boarding import Boarding

            harbour = self._harbour
            self._boarding = Boarding(
                self._inner,
                self._slot,
                harbour.berths,
                harbour.clock,
                harbour.events,
                self._on_ended,
                may_do_without=harbour.may_do_without,
            )
        return self._boarding

    def close(self) -> None:
        """Tell it nothing more."""
        (self._boarding or self._inner).close()
