"""A daemon among the hosts that share a queue: joining, staying, taking over, leaving."""

import asyncio
from collections.abc import Callable
from typing import Any

from acode.clock import uptime
from acode.engine.background import Background
from acode.engine.bell import Bell
from acode.engine.dispatcher import Dispatcher
from acode.engine.roster import Roster, Slot
from acode.engine.tenure import Tenure
from acode.errors import AcodeError, LeaseLost
from acode.ids import host_name
from acode.model.event import PoolNote
from acode.model.host import Host
from acode.model.task import Lease
from acode.observe.events import Events
from acode.store.base import Store
from acode.worker.messages import Action, Control, Why
from acode.worker.wire import FrameType

LOOK_SECONDS = 1.0
"""How often the time is looked at: a machine that has slept must find out at once."""
RENEWALS = 3
"""So many renewals fall into one lease."""


class Membership:
    """Renews the lease in time, tells the workers, and looks after what silent hosts left."""

    def __init__(
        self,
        store: Store,
        host: Host,
        tenure: Tenure,
        roster: Roster,
        dispatcher: Dispatcher,
        events: Events,
        bell: Bell,
        publish: Callable[[], Any],
    ) -> None:
        self.host = host
        self._store = store
        self._tenure = tenure
        self._roster = roster
        self._dispatcher = dispatcher
        self._events = events
        self._bell = bell
        self._publish = publish
        self._background = Background(events)
        self._trouble: str | None = None
        self._is_cut_off = False
        self._asked_at = 0.0
        self._steady_since = uptime()
        """Since when every renewal has succeeded."""
        self._unheard: frozenset[str] = frozenset()
        """Leases that the store has for us and nobody here knew of at the last renewal."""
        self._giving_up: set[str] = set()

    async def join(self) -> None:
        """Take part; what this host holds from before stays its own."""
        await self._join()
        await self._store.listen(self._bell.ring)

    async def _join(self) -> None:
        asked_at = uptime()
        await self._store.join(self.host, round((self._tenure.lease_seconds or 0) * 1000))
        self._tenure.renewed(asked_at)

    async def leave(self) -> None:
        """Take part no more."""
        await self._background.close()
        try:
            async with asyncio.timeout(self._interval):
                await self._store.leave(self.host.id)
        except (AcodeError, TimeoutError) as error:
            self._events.emit(PoolNote("warning", f"the hosts do not know that we left: {error}"))

    @property
    def _interval(self) -> float:
        return (self._tenure.lease_seconds or 30.0) / RENEWALS

    async def tick(self) -> float:
        """Renew if it is time; how long to rest."""
        if uptime() - self._asked_at >= self._interval or self._trouble:
            await self.renew()
        return min(LOOK_SECONDS, self._interval / 2)

    async def renew(self) -> None:
        """Stay, say how things are here, and look after what silent hosts left."""
        asked_at = self._asked_at = uptime()
        held = {slot: slot.lease.token for slot in self._roster if slot.lease is not None}
        try:
            async with asyncio.timeout(self._interval):
                tokens = await self._store.renew(self.host.id, self._publish())
        except LeaseLost:
            await self._start_anew(list(held))
        except (AcodeError, TimeoutError) as error:
            self._endure(str(error) or "the database does not answer")
        else:
            self._tenure.renewed(asked_at)
            self._recover(asked_at)
            self.tell_workers()
            self._end([slot for slot, token in held.items() if _has_lost(slot, token, tokens)])
            self._look_for_unheard(tokens)
            if asked_at - self._steady_since >= (self._tenure.lease_seconds or 0.0):
                await self._take_over()

    def _recover(self, asked_at: float) -> None:
        if self._trouble is not None:
            self._steady_since = asked_at
            away = "the database answers again; claims go on"
            self._events.emit(PoolNote("info", away))
            self._bell.ring()
        self._trouble, self._is_cut_off = None, False

    def _endure(self, why: str) -> None:
        """Nothing can be claimed; what runs goes on as long as nobody else can have got it."""
        if why != self._trouble:
            self._events.emit(PoolNote("error", f"the lease cannot be renewed: {why}"))
        self._trouble = why
        if self._tenure.is_over and not self._is_cut_off:
            self._is_cut_off = True
            note = "this host is cut off from the queue: whatever runs is ended"
            self._events.emit(PoolNote("error", note))
            self._end(self._roster.busy())

    async def _start_anew(self, slots: list[Slot]) -> None:
        """Others have got what we held: it must not go on here."""
        note = "this host was silent for too long: its tasks were given to others"
        self._events.emit(PoolNote("error", note))
        self._tenure.gone()
        self._end(slots)
        self._steady_since = uptime()
        try:
            async with asyncio.timeout(self._interval):
                await self._join()
        except (AcodeError, TimeoutError) as error:
            self._endure(str(error))

    def _look_for_unheard(self, tokens: frozenset[str]) -> None:
        """A claim whose answer was lost with the line leaves leases that nobody works on.

        What is unknown at two renewals in a row is not just on its way.
        """
        known = {slot.lease.token for slot in self._roster if slot.lease is not None}
        unheard = tokens - known - self._giving_up
        if stray := unheard & self._unheard:
            self._background.spawn(self._release(stray))
        self._unheard = unheard

    async def _release(self, tokens: frozenset[str]) -> None:
        for lease in await self._store.leases(self.host.id):
            if lease.token in tokens:
                note = f"task {lease.task.id} was claimed, but the answer was lost; it is released"
                self._events.emit(PoolNote("warning", note))
                await self._dispatcher.released(lease, "the answer to its claim was lost")
        self._bell.ring()

    def _end(self, slots: list[Slot]) -> None:
        for slot in slots:
            if slot.lease is not None and slot.link is not None:
                token = slot.lease.token
                order = Control(action=Action.ABORT, token=token, why=Why.SILENCE, force=True)
                slot.link.send(FrameType.CONTROL, token, order)

    def tell_workers(self) -> None:
        """How long those who run something may go on."""
        if (tenure := self._tenure.told) is None:
            return
        order = Control(action=Action.EXTEND, data=tenure)
        for slot in self._roster.busy():
            if slot.link is not None:
                slot.link.send(FrameType.CONTROL, slot.id, order)

    async def _take_over(self) -> None:
        """What hosts left that have been silent for longer than their lease."""
        try:
            async with asyncio.timeout(self._interval):
                leases = await self._store.expire(self.host.id)
        except (AcodeError, TimeoutError) as error:
            self._endure(str(error))
            return
        for lease in leases:
            self._background.spawn(self._give_up(lease))

    async def _give_up(self, lease: Lease) -> None:
        name = host_name(lease.ran_on) or "its host"
        note = f"{name} fell silent; task {lease.task.id} is looked after here"
        self._events.emit(PoolNote("warning", note))
        self._giving_up.add(lease.token)
        try:
            await self._dispatcher.lost(lease, f"{name} fell silent")
        finally:
            self._giving_up.discard(lease.token)
        self._bell.ring()


def _has_lost(slot: Slot, token: str, held: frozenset[str]) -> bool:
    """Whether a worker runs what is not ours any more; it may be at its next task by now."""
    return token not in held and slot.lease is not None and slot.lease.token == token
