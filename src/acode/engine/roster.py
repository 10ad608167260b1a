"""The workers of the pool, and what the daemon knows of each."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from acode.clock import ticks
from acode.engine.port import Port
from acode.errors import IllegalMove
from acode.model.event import WorkerStatusChanged
from acode.model.state import WORKER_MOVES, WorkerStatus
from acode.model.task import CancelWish, Lease, Mode, Task
from acode.model.worker import ProcessIdentity, Worker
from acode.observe.events import Events

if TYPE_CHECKING:
    from acode.runner.container.stats import Used

FIT = frozenset({WorkerStatus.IDLE, WorkerStatus.BUSY})
LIVE = frozenset({WorkerStatus.IDLE, WorkerStatus.BUSY, WorkerStatus.ERROR})


class Peak(NamedTuple):
    """The most memory that an attempt was seen to use."""

    token: str | None
    memory_bytes: int


class Slot:
    """One worker's place in the pool; it keeps its id over restarts."""

    def __init__(self, worker_id: str, mode: Mode, events: Events) -> None:
        self.id = worker_id
        self.mode = mode
        self.status = WorkerStatus.STARTING
        self.process: ProcessIdentity | None = None
        self.link: Port | None = None
        self.lease: Lease | None = None
        self.reserved = False
        """A claim for it is under way."""
        self.leaving = False
        """It stops as soon as it is idle."""
        self.told: tuple[str, CancelWish | None] | None = None
        """The last wish that was passed on to it."""
        self.started_at: int | None = None
        self.last_heartbeat: int | None = None
        self.heard_ms = 0
        """The same on the monotonic clock, which nobody sets."""
        self.enforced: tuple[str, ...] = ()
        """The limits that the kernel keeps for it."""
        self.counts = False
        """Whether it reports the usage of whole trees."""
        self.disk_bytes = 0
        self.peak = Peak(None, 0)
        self.container_id: str | None = None
        self.container_used: Used | None = None
        """What its container used when last looked at."""
        self.last_used = 0
        self.completed = 0
        self.failed = 0
        self.restarts = 0
        self.recent_restarts = 0
        self._events = events
        self._alone = [worker_id]

    def alone(self, _tasks: Sequence[Task]) -> list[str]:
        """The assignment of a claim for nobody but this worker."""
        return self._alone

    def heard(self, now: int) -> None:
        """It has given a sign of life."""
        self.last_heartbeat = now
        self.heard_ms = round(ticks() * 1000)

    def hang_up(self) -> None:
        """Nothing more is told to it, or heard of it."""
        if self.link is not None:
            self.link.close()
            self.link = None

    @property
    def load(self) -> int:
        """Attempts that it has run so far."""
        return self.completed + self.failed

    @property
    def is_free(self) -> bool:
        """Whether it can take a task now."""
        ready = self.status is WorkerStatus.IDLE and self.link is not None
        return ready and not self.reserved and not self.leaving

    @property
    def can_take(self) -> bool:
        """Whether it is fit for the task that was claimed for it."""
        return self.lease is None and self.status in FIT

    def take(self, lease: Lease) -> None:
        """Begin a task, the first one or the next."""
        self.lease = lease
        if self.status is WorkerStatus.BUSY:
            self._tell()
        else:
            self.move(WorkerStatus.BUSY)

    def move(self, status: WorkerStatus) -> None:
        """Change the status as the table allows."""
        if status is self.status:
            return
        if status not in WORKER_MOVES[self.status]:
            raise IllegalMove(f"worker {self.id} cannot go from {self.status} to {status}")
        self.status = status
        self._tell()

    def _tell(self) -> None:
        if self._events.is_heard(WorkerStatusChanged):
            task_id = self.lease.task.id if self.lease else None
            self._events.emit(WorkerStatusChanged(self.id, self.status, task_id))

    def seen(self) -> Worker:
        """What others may see of it."""
        return Worker(
            id=self.id,
            status=self.status,
            mode=self.mode,
            process=self.process,
            current_task_id=self.lease.task.id if self.lease else None,
            started_at=self.started_at,
            last_heartbeat=self.last_heartbeat,
            tasks_completed=self.completed,
            tasks_failed=self.failed,
            restarts=self.restarts,
            container_id=self.container_id,
        )


class Roster:
    """All slots, in the order in which they came."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.wanted = 0
        """The size that the pool is meant to have."""
        self._slots: dict[str, Slot] = {}

    def __iter__(self) -> Iterator[Slot]:
        return iter(tuple(self._slots.values()))

    def __len__(self) -> int:
        return len(self._slots)

    def add(self, worker_id: str, mode: Mode) -> Slot:
        """A new place."""
        slot = Slot(worker_id, mode, self.events)
        self.put(slot)
        return slot

    def put(self, slot: Slot) -> None:
        """A place that was there before, or is new."""
        self._slots[slot.id] = slot

    def get(self, worker_id: str) -> Slot | None:
        """The place of this worker."""
        return self._slots.get(worker_id)

    def remove(self, slot: Slot) -> None:
        """It is gone for good."""
        self._slots.pop(slot.id, None)

    def free(self) -> list[Slot]:
        """Those that can take a task now."""
        return [slot for slot in self if slot.is_free]

    def staying(self) -> list[Slot]:
        """Those that are meant to go on: the size of the pool."""
        gone = (WorkerStatus.STOPPING, WorkerStatus.STOPPED, WorkerStatus.FAILED)
        return [slot for slot in self if not slot.leaving and slot.status not in gone]

    def busy(self) -> list[Slot]:
        """Those with a task."""
        return [slot for slot in self if slot.lease is not None]

    def count(self, fits: Callable[[Slot], bool]) -> int:
        """How many fit."""
        return sum(1 for slot in self if fits(slot))
