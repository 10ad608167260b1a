"""A pool that shares its queue with other programs: it is a host among hosts."""

import os

from acode.clock import Clock
from acode.embedded.handle import Waiters, fate_of
from acode.engine.bell import Bell
from acode.engine.dispatcher import Dispatcher
from acode.engine.membership import Membership
from acode.engine.roster import Roster
from acode.engine.service import Service
from acode.engine.tenure import Tenure
from acode.hosts import new_host_id
from acode.ids import host_name
from acode.model.host import Host
from acode.model.state import FINISHED
from acode.observe.events import Events
from acode.runner.identity import boot_id
from acode.store.base import Store

LEASE_SECONDS = 30.0
LOOK_SECONDS = 0.5
"""How soon this program hears of a task that another one has finished."""


def stranger(clock: Clock) -> Host:
    """A host that has never been before: when a program ends, nothing of it goes on."""
    host_id = new_host_id(clock.now())
    name = host_name(host_id) or host_id
    return Host(id=host_id, name=name, boot_id=boot_id(), pid=os.getpid())


class Company:
    """What a pool has to do because it is not alone."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        roster: Roster,
        events: Events,
        bell: Bell,
        waiters: Waiters,
    ) -> None:
        self._store = store
        self._waiters = waiters
        self._seen = 0
        self._host = stranger(clock)
        self.tenure = Tenure(self._host.id, LEASE_SECONDS)
        self._parts = roster, events, bell
        self._membership: Membership | None = None
        self._services: list[Service] = []

    async def join(self, dispatcher: Dispatcher) -> None:
        """Take part."""
        roster, events, bell = self._parts
        self._membership = Membership(
            self._store,
            self._host,
            self.tenure,
            roster,
            dispatcher,
            events,
            bell,
            lambda: {"workers": []},
        )
        await self._membership.join()
        self._seen = await self._store.newest_move()
        self._services = [
            Service("membership", self._membership.tick, events),
            Service("others", self._look, events),
        ]
        for service in self._services:
            service.start()

    async def leave(self) -> None:
        """Take part no more."""
        for service in self._services:
            await service.stop()
        if self._membership is not None:
            await self._membership.leave()

    async def _look(self) -> float:
        """What others have finished that somebody here waits for."""
        while moves := await self._store.moves(self._seen):
            for move in moves:
                if move.became in FINISHED and self._waiters.waits_for(move.task_id):
                    task = await self._store.get(move.task_id)
                    self._waiters.tell(task.id, fate_of(task))
            self._seen = moves[-1].seq
        return LOOK_SECONDS
