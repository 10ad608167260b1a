"""What a new daemon does before its first claim: find out what became of everything."""

import os

import msgspec

from acode.engine.dispatcher import Dispatcher
from acode.engine.remains import known_workers
from acode.engine.roster import Roster, Slot
from acode.engine.supervisor import Supervisor
from acode.errors import AcodeError
from acode.model.event import WorkerStarted
from acode.model.state import WorkerStatus
from acode.model.task import Lease, Mode
from acode.model.worker import ProcessIdentity
from acode.observe.events import Events
from acode.runner.identity import is_alive
from acode.runner.tree import kill_marked
from acode.store.base import Store
from acode.worker import spool
from acode.worker.messages import Heartbeat


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
    ) -> None:
        self._store = store
        self._roster = roster
        self._supervisor = supervisor
        self._dispatcher = dispatcher
        self._events = events
        self._run_dir = run_dir

    async def recover(self, mode: Mode) -> Recovery:
        """Everything that has to be known before the first claim."""
        found = Recovery()
        leases = {lease.token: lease for lease in await self._store.leases()}
        for worker_id, process in known_workers(self._run_dir):
            if is_alive(process):
                await self._adopt(worker_id, process, mode, leases, found)
        for lease in leases.values():
            await self._give_back(lease, found)
        self._clean(found)
        return found

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
            hello = await self._supervisor.attach(slot, process)
        except (AcodeError, OSError, TimeoutError) as error:
            found.problems.append(f"worker-{worker_id} does not answer: {error}")
            self._supervisor.kill(slot)
            return
        found.adopted.append(worker_id)
        self._events.emit(WorkerStarted(worker_id, process.pid, adopted=True))
        await self._resume(slot, hello, leases, found)

    async def _resume(
        self, slot: Slot, hello: Heartbeat, leases: dict[str, Lease], found: Recovery
    ) -> None:
        if hello.current is not None:
            lease = leases.pop(hello.current.token, None)
            if lease is None:
                self._supervisor.kill(slot)  # it runs what is not its own any more
                return
            slot.lease = lease
            slot.move(WorkerStatus.BUSY)
            found.continued.append(lease.task.id)
        elif hello.ended is not None and hello.ended.token in leases:
            slot.lease = leases.pop(hello.ended.token)
            slot.move(WorkerStatus.BUSY)
            found.reported.append(slot.lease.task.id)
            await self._dispatcher.ended(slot, hello.ended)

    async def _give_back(self, lease: Lease, found: Recovery) -> None:
        left = spool.read(self._supervisor.spool_of(lease.worker_id))
        kill_marked(f"ACODE_ATTEMPT_TOKEN={lease.token}".encode())
        if left is not None and left.token == lease.token:
            await self._dispatcher.spooled(lease, left)
            found.reported.append(lease.task.id)
        else:
            await self._dispatcher.lost(lease, f"worker-{lease.worker_id} died with the daemon")
            found.lost.append(lease.task.id)

    def _clean(self, found: Recovery) -> None:
        """Remove what workers that are gone left behind."""
        living = {slot.id for slot in self._roster}
        for folder in ("workers", "spool", "tmp"):
            for name in os.listdir(f"{self._run_dir}/{folder}"):
                if name.partition(".")[0] not in living:
                    _remove(f"{self._run_dir}/{folder}/{name}")
                    found.cleaned += 1


def _remove(path: str) -> None:
    from acode.runner.shelf import remove

    if os.path.isdir(path) and not os.path.islink(path):
        remove(path)
    else:
        os.unlink(path)
