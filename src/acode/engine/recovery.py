"""What a new daemon does before its first claim: find out what became of everything."""

import msgspec

from acode.engine.dispatcher import Dispatcher
from acode.engine.remains import remembered_workers
from acode.engine.roster import Roster, Slot
from acode.engine.supervisor import Supervisor
from acode.engine.tenure import Tenure
from acode.errors import AcodeError
from acode.model.event import PoolNote, WorkerStarted
from acode.model.state import WorkerStatus
from acode.model.task import Lease, Mode
from acode.model.worker import ProcessIdentity
from acode.observe.events import Events
from acode.runner.identity import is_alive
from acode.runner.tree import kill_marked
from acode.store.base import Store
from acode.worker import spool
from acode.worker.known import known_workers
from acode.worker.messages import Heartbeat

CHECKED_TASKS = 20_000
"""A larger store is checked by `queue check` only."""


class Recovery(msgspec.Struct, kw_only=True, rename="camel"):
    """What was found, for `queue status` and `queue recover`."""

    problems: list[str] = []
    adopted: list[str] = []
    continued: list[str] = []
    """Tasks that kept running all the while."""
    reported: list[str] = []
    """Tasks whose ending was waiting on disk."""
    lost: list[str] = []
    """Tasks whose worker is proven dead."""
    released: list[str] = []
    """Tasks that were claimed and never begun."""
    cleaned: int = 0


class Recoverer:
    """Adopts, ingests, and gives back; in that order."""

    def __init__(
        self,
        store: Store,
        roster: Roster,
        supervisor: Supervisor,
        dispatcher: Dispatcher,
        events: Events,
        run_dir: str,
        tenure: Tenure,
    ) -> None:
        self._tenure = tenure
        self._store = store
        self._roster = roster
        self._supervisor = supervisor
        self._dispatcher = dispatcher
        self._events = events
        self._run_dir = run_dir

    async def recover(self, mode: Mode) -> Recovery:
        """Everything that has to be known before the first claim."""
        found = Recovery()
        await self._check(found)
        # What other hosts hold is theirs; a store that is ours alone may be older than its hosts.
        shares = self._tenure.lease_seconds is not None
        held = await self._store.leases(self._tenure.host_id if shares else None)
        leases = {lease.token: lease for lease in held}
        for worker_id, process in known_workers(self._run_dir):
            if is_alive(process):
                await self._adopt(worker_id, process, mode, leases, found)
        for lease in leases.values():
            await self._give_back(lease, found)
        self._clean(found)
        return found

    async def _check(self, found: Recovery) -> None:
        """Whether the store is sound, unless it is so large that the pool would wait for it."""
        counts = await self._store.counts()
        if sum(counts.by_status.values()) <= CHECKED_TASKS:
            found.problems += await self._store.check()
        for problem in found.problems:
            self._events.emit(PoolNote("error", f"the store is not sound: {problem}"))

    async def _adopt(
        self,
        worker_id: str,
        process: ProcessIdentity,
        mode: Mode,
        leases: dict[str, Lease],
        found: Recovery,
    ) -> None:
        slot = self._roster.add(worker_id, mode)
        try:
            hello = await self._supervisor.attach(
                slot, process, lambda hello: self._take_up(slot, hello, leases, found)
            )
        except (AcodeError, OSError, TimeoutError) as error:
            found.problems.append(f"worker-{worker_id} does not answer: {error}")
            self._supervisor.unreachable(slot, str(error) or "it does not answer")
            return
        found.adopted.append(worker_id)
        self._events.emit(WorkerStarted(worker_id, process.pid, adopted=True))
        await self._resume(slot, hello)

    def _take_up(
        self, slot: Slot, hello: Heartbeat, leases: dict[str, Lease], found: Recovery
    ) -> None:
        """The attempt that the worker tells of is known again; nobody waits meanwhile."""
        if hello.current is not None:
            slot.lease = leases.pop(hello.current.token, None)
            if slot.lease is None:
                self._supervisor.kill(slot)  # it runs what is not its own any more
            else:
                found.continued.append(slot.lease.task.id)
        elif hello.ended is not None and hello.ended.token in leases:
            slot.lease = leases.pop(hello.ended.token)
            found.reported.append(slot.lease.task.id)

    async def _resume(self, slot: Slot, hello: Heartbeat) -> None:
        if slot.lease is None:
            return  # idle, or its result has come right behind the greeting
        slot.move(WorkerStatus.BUSY)
        if hello.ended is not None and hello.ended.token == slot.lease.token:
            await self._dispatcher.ended(slot, hello.ended)

    async def _give_back(self, lease: Lease, found: Recovery) -> None:
        if lease.worker_id in found.adopted:
            # Its worker lives and does not know of it: the order was never given.
            await self._dispatcher.released(lease, "the daemon died before it began")
            found.released.append(lease.task.id)
            return
        left = spool.read(self._supervisor.spool_of(lease.worker_id))
        kill_marked(f"ACODE_ATTEMPT_TOKEN={lease.token}".encode())
        self._supervisor.keep_checkpoint(lease)
        if left is not None and left.token == lease.token:
            await self._dispatcher.spooled(lease, left)
            found.reported.append(lease.task.id)
        else:
            await self._dispatcher.lost(lease, f"worker-{lease.worker_id} died with the daemon")
            found.lost.append(lease.task.id)

    def _clean(self, found: Recovery) -> None:
        """Remove what workers that are gone left behind."""
        gone = remembered_workers(self._run_dir) - {slot.id for slot in self._roster}
        for worker_id in gone:
            self._supervisor.remove_remains(worker_id)
        found.cleaned = len(gone)
