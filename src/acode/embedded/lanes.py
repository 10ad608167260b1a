"""How many attempts are out at once: one for each worker, and some more while they are short.

The dispatcher sees lanes, not workers. A lane more than there are workers saves commits where a
commit takes longer than an attempt, and costs a look at every claim. So lanes are opened while more
tasks wait than there are lanes, and closed as soon as one finds nothing to do.
"""

from collections.abc import Callable, Sized

from acode.clock import Clock
from acode.engine.port import Port
from acode.engine.roster import Roster, Slot
from acode.ids import new_id
from acode.model.state import WorkerStatus
from acode.model.task import Mode

DEEPEST = 64
SHORT_MS = 8.0
"""Attempts that take less than this together may be in the hands of a worker at once."""


class Lanes:
    """Opens and closes the dispatcher's ways to the crew."""

    def __init__(
        self, roster: Roster, clock: Clock, link: Callable[[Slot], Port], workers: Sized
    ) -> None:
        self._roster = roster
        self._clock = clock
        self._link = link
        self._workers = workers
        self._extra: dict[str, Slot] = {}
        self._spare: list[Slot] = []
        """Those that were closed, to be opened again."""
        self.most = 1
        """How many attempts a worker may have at once, the one that runs included."""
        self.depth = 1
        """How many it has to take so that every lane has a place."""

    def open_for(self, worker_id: str) -> None:
        """The lane of a worker that is ready."""
        slot = self._roster.get(worker_id) or self._open(worker_id)
        slot.leaving = False

    def _open(self, lane_id: str) -> Slot:
        slot = self._roster.add(lane_id, Mode.PROCESS)
        slot.link = self._link(slot)
        slot.started_at = self._clock.now()
        slot.move(WorkerStatus.IDLE)
        return slot

    def close_for(self, worker_id: str, *, for_good: bool) -> None:
        """Nothing is claimed on account of a worker that is not there."""
        slot = self._roster.get(worker_id)
        if slot is not None:
            slot.leaving = True
            if for_good and slot.lease is None:
                self._roster.remove(slot)

    def suit(self, mean_ms: float) -> None:
        """Attempts take so long on average."""
        most = max(1, min(DEEPEST, int(SHORT_MS / max(mean_ms, 0.01))))
        if most < self.most:
            for place, slot in enumerate(self._extra.values()):
                slot.leaving = place >= len(self._workers) * (most - 1)
        self.most = most

    def widen(self) -> bool:
        """More tasks wait: twice as many lanes, if attempts are that short; whether there are."""
        if self.most == 1:
            return False
        workers, there = len(self._workers), len(self._extra)
        missing = min(there * 2 + workers, workers * (self.most - 1)) - there
        if missing <= 0:
            return False
        for _ in range(missing):
            slot = self._spare.pop() if self._spare else self._open(new_id(self._clock.now()))
            slot.leaving = False
            self._roster.put(slot)
            self._extra[slot.id] = slot
        self._count()
        return True

    def narrow(self) -> None:
        """Close those that have found nothing to do."""
        for slot in tuple(self._extra.values()):
            if slot.status is WorkerStatus.IDLE and slot.lease is None and not slot.reserved:
                self._close(slot)

    def idle(self, slot: Slot) -> None:
        """A lane has nothing to do."""
        if slot.id in self._extra:
            self._close(slot)
        elif slot.leaving:
            self._roster.remove(slot)

    def _close(self, slot: Slot) -> None:
        del self._extra[slot.id]
        self._roster.remove(slot)
        self._spare.append(slot)
        self._count()

    def _count(self) -> None:
        self.depth = 1 - -len(self._extra) // max(1, len(self._workers))
