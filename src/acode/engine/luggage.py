"""Checkpoint files of commands, where machines share the queue: they travel with their tasks.

A file that a task keeps lies on one machine. What it holds is a step of the task as well, written
by the attempt's token while it runs and when it ends, so that the next one finds it anywhere.
"""

import os
import stat
from contextlib import suppress
from typing import NamedTuple

import msgspec

from acode.engine.roster import Roster
from acode.errors import AcodeError
from acode.model.event import PoolNote
from acode.model.task import Lease
from acode.observe.events import Events
from acode.store.base import Store
from acode.worker.config import WorkerConfig
from acode.worker.places import kept_checkpoint, live_checkpoint

STEP = "ACODE_CHECKPOINT"
"""The name that the file has among the steps of its task."""
MAX_BYTES = 256 * 1024
"""Larger ones stay where they are: every claim and every list of dead letters would carry them."""


class Parcel(msgspec.Struct, frozen=True):
    """What a file held, and where it lies besides."""

    host: str
    data: bytes


class _Version(NamedTuple):
    """By what one state of a file is told from another; moving it makes no difference."""

    file: int
    written_ns: int
    size: int


class Luggage:
    """Keeps what attempts of this host leave, and brings what attempts elsewhere have left."""

    def __init__(
        self,
        store: Store,
        roster: Roster,
        config: WorkerConfig,
        host_id: str,
        rest_seconds: float,
        events: Events,
    ) -> None:
        self._store = store
        self._roster = roster
        self._config = config
        self._host_id = host_id
        self._rest_seconds = rest_seconds
        self._events = events
        self._sent: dict[str, _Version] = {}
        """What the store has of the attempts that run here, by their tokens."""

    async def tick(self) -> float:
        """Keep what has been written by now: this machine may be gone the next moment."""
        leases = [slot.lease for slot in self._roster.busy() if slot.lease is not None]
        self._sent = {one.token: self._sent[one.token] for one in leases if one.token in self._sent}
        for lease in leases:
            # An attempt that is over is kept by whoever ends it.
            with suppress(AcodeError):
                await self._send(lease, live_checkpoint(self._of(lease), lease.task.id))
        return self._rest_seconds

    async def keep(self, lease: Lease) -> None:
        """The attempt is over and the task is not: what it has left is for the next one."""
        if lease.ran_on is not None:
            return  # it lies elsewhere; the store has what was kept while that machine was there
        is_there = await self._send(lease, kept_checkpoint(self._config, lease.task.id))
        if not is_there and (lease.token in self._sent or lease.steps.get(STEP) is not None):
            await self._store.save_step(lease.task.id, lease.token, STEP, None)
        self._sent.pop(lease.token, None)

    def bring(self, lease: Lease) -> None:
        """Put what the attempt before has left where the worker looks for it."""
        if STEP not in lease.steps:
            return
        path = kept_checkpoint(self._config, lease.task.id)
        try:
            if (found := lease.steps[STEP]) is None:
                os.unlink(path)  # of an attempt before the one that removed it
            else:
                self._unpack(msgspec.convert(found, Parcel), path)
        except FileNotFoundError:
            return
        except (OSError, msgspec.ValidationError) as error:
            note = f"the checkpoint of task {lease.task.id} cannot be brought here: {error}"
            self._events.emit(PoolNote("warning", note))

    def _unpack(self, parcel: Parcel, path: str) -> None:
        if parcel.host == self._host_id and os.path.lexists(path):
            return  # the file itself has never left
        descriptor = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(parcel.data)
        os.replace(f"{path}.new", path)

    async def _send(self, lease: Lease, path: str) -> bool:
        """Write what the file holds to the store, if that is news; whether there is a file."""
        known = self._sent.get(lease.token)
        found = _read(path, known)
        if found is None or found.version == known:
            return found is not None
        if len(found.data) > MAX_BYTES:
            note = f"the checkpoint of task {lease.task.id} is too large for other machines"
            self._events.emit(PoolNote("warning", f"{note}: more than {MAX_BYTES >> 10} KB"))
        else:
            parcel = msgspec.to_builtins(Parcel(self._host_id, found.data))
            await self._store.save_step(lease.task.id, lease.token, STEP, parcel)
        self._sent[lease.token] = found.version
        return True

    def _of(self, lease: Lease) -> WorkerConfig:
        return msgspec.structs.replace(self._config, id=lease.worker_id)


class _Found(NamedTuple):
    version: _Version
    data: bytes


def _read(path: str, known: _Version | None) -> _Found | None:
    """A file, if it is one: a task may have put anything there. What is known is not read again."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        version = _Version(status.st_ino, status.st_mtime_ns, status.st_size)
        if not stat.S_ISREG(status.st_mode):
            return None
        return _Found(version, b"" if version == known else os.read(descriptor, MAX_BYTES + 1))
    finally:
        os.close(descriptor)
