"""Hiring and letting go: workers in the program itself, or processes that are forked for it."""

import asyncio
import os
import signal
import socket
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeVar

from acode.clock import Clock, ticks
from acode.embedded.begun import Begun
from acode.embedded.crew import Crew
from acode.embedded.inline import InlineWorker
from acode.embedded.process import ProcessWorker, wires
from acode.embedded.template import Born, Gone, Wanted, asked, fork_template, told
from acode.errors import WorkerStartFailed
from acode.ids import new_id
from acode.model.event import WorkerCrashed, WorkerFailed
from acode.observe.events import Events
from acode.policy.restart import GiveUp, Restart, RestartAfter, after_crash, consecutive

_T = TypeVar("_T")

START_SECONDS = 30.0
EXIT_CODE_SECONDS = 0.2
RESTART = Restart(delay_ms=20, max_delay_ms=30_000, max_restarts=20, healthy_after_ms=60_000)


class Staff(Protocol):
    """Who hires workers and lets them go."""

    begun: Begun | None
    """Where workers note what they begin, if the store outlives the program."""

    async def open(self) -> None:
        """Before anything else of the pool is there."""
        ...

    async def hire(self, crew: Crew, count: int) -> None:
        """New workers, ready for work."""
        ...

    def release(self, crew: Crew, worker_id: str) -> None:
        """Let a worker go; nothing runs there any more."""
        ...

    async def close(self) -> None:
        """Everybody goes."""
        ...


class InlineStaff:
    """Workers that share the program."""

    def __init__(self, clock: Clock) -> None:
        self.begun: Begun | None = None
        self._clock = clock
        self._hired = 0

    async def open(self) -> None:
        """Nothing is needed."""

    async def hire(self, crew: Crew, count: int) -> None:
        """New workers."""
        for _ in range(count):
            note = None if self.begun is None else partial(self.begun.note, self._hired)
            self._hired += 1
            worker = InlineWorker(new_id(self._clock.now()), crew, self._clock, note)
            crew.join(worker, os.getpid())

    def release(self, crew: Crew, worker_id: str) -> None:
        """Let a worker go."""
        worker = crew.workers[worker_id]
        crew.part(worker)
        crew.errands.later(worker.close())

    async def close(self) -> None:
        """Nothing is left."""


class ProcessStaff:
    """Workers that are processes, forked from a template and started again when they die."""

    def __init__(self, clock: Clock, events: Events, heartbeat_ms: int) -> None:
        self.begun: Begun | None = None
        self._clock = clock
        self._events = events
        self._heartbeat_ms = heartbeat_ms
        self._wire: socket.socket | None = None
        self._pid = 0
        self._births: dict[str, asyncio.Future[Born]] = {}
        self._codes: dict[int, asyncio.Future[int]] = {}
        self._restarts: dict[str, int] = {}
        self._places: dict[str, int] = {}
        """Where each worker notes what it begins; a worker that starts again keeps its place."""
        self._living: set[ProcessWorker] = set()
        self._closing = False

    # The template.

    async def open(self) -> None:
        """Make the template, while the program is as quiet as it will ever be."""
        self._pid, self._wire = fork_template()
        self._wire.setblocking(False)
        asyncio.get_running_loop().add_reader(self._wire.fileno(), self._hear)

    def _hear(self) -> None:
        try:
            data = self._wire.recv(4096) if self._wire else b""
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._template_died()
            return
        message = told(data)
        match message:
            case Born(worker_id):
                _set(self._births.get(worker_id), message)
            case Gone(pid, code):
                _set(self._codes.get(pid), code)

    def _template_died(self) -> None:
        self._hang_up()
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)  # its end of the wire is closed, so this takes no time
        for birth in self._births.values():
            if not birth.done():
                birth.set_exception(WorkerStartFailed("the template has died"))

    def _hang_up(self) -> None:
        if self._wire is not None:
            asyncio.get_running_loop().remove_reader(self._wire.fileno())
            self._wire.close()
            self._wire = None

    # Workers.

    async def hire(self, crew: Crew, count: int) -> None:
        """New workers, all at once."""
        names = [new_id(self._clock.now()) for _ in range(count)]
        await asyncio.gather(*(self._start(crew, name) for name in names))

    async def _start(self, crew: Crew, worker_id: str) -> None:
        worker = ProcessWorker(worker_id, crew, lambda dead: self._on_death(crew, dead))
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._bear(worker)
                await worker.greeted
        except (OSError, TimeoutError) as error:
            worker.kill()
            raise WorkerStartFailed(f"a worker did not start: {error}") from error
        crew.join(worker, worker.pid)

    async def _bear(self, worker: ProcessWorker) -> None:
        if self._wire is None:
            await self.open()
        if self._wire is None:
            raise WorkerStartFailed("there is no template")
        loop = asyncio.get_running_loop()
        ours, theirs = wires()
        await loop.create_unix_connection(lambda: worker, sock=ours)
        birth = self._births[worker.id] = loop.create_future()
        with theirs:
            socket.send_fds(self._wire, [self._wanted(worker.id)], [theirs.fileno()])
        try:
            born = await birth
        finally:
            del self._births[worker.id]
        if not born.pid:
            raise WorkerStartFailed(f"a worker could not be forked: {born.error}")
        self._codes[born.pid] = loop.create_future()
        self._living.add(worker)
        worker.born(born.pid)

    def _wanted(self, worker_id: str) -> bytes:
        place = self._places.setdefault(worker_id, len(self._places))
        path = None if self.begun is None else self.begun.path
        return asked(Wanted(worker_id, self._heartbeat_ms, path, place))

    def release(self, crew: Crew, worker_id: str) -> None:
        """Let a worker go; it ends when its wire is closed."""
        worker = crew.workers[worker_id]
        worker.leaving = True
        crew.errands.later(worker.close())

    # Death.

    def _on_death(self, crew: Crew, worker: ProcessWorker) -> None:
        self._living.discard(worker)
        if not self._closing:
            crew.errands.later(self._bury(crew, worker))

    async def _bury(self, crew: Crew, worker: ProcessWorker) -> None:
        if not worker.greeted.done():
            worker.greeted.set_exception(OSError("it ended at once"))
            return
        cause = await self._cause(worker)
        orders = worker.left()
        crew.absent(worker)
        for order in orders[:1]:
            crew.lost(order, f"worker-{worker.id} died: {cause}")
        crew.put_back(orders[1:])
        if worker.leaving:
            crew.part(worker)
        else:
            await self._replace(crew, worker, cause)

    async def _cause(self, worker: ProcessWorker) -> str:
        code = self._codes[worker.pid]
        await asyncio.wait([code], timeout=EXIT_CODE_SECONDS)
        del self._codes[worker.pid]
        if not code.done():
            return "it is gone"
        number = code.result()
        return f"exit code {number}" if number >= 0 else signal.Signals(-number).name

    async def _replace(self, crew: Crew, worker: ProcessWorker, cause: str) -> None:
        ran_ms = round((ticks() - worker.started) * 1000)
        restarts = consecutive(self._restarts.pop(worker.id, 0), ran_ms, RESTART)
        match after_crash(restarts, RESTART):
            case RestartAfter(delay_ms):
                self._events.emit(WorkerCrashed(worker.id, cause, delay_ms))
                await asyncio.sleep(delay_ms / 1000)
                self._restarts[worker.id] = restarts + 1
                if not self._closing:
                    await self._start(crew, worker.id)
            case GiveUp(why):
                self._events.emit(WorkerFailed(worker.id, f"{cause}; {why}"))
                crew.part(worker)
                await asyncio.sleep(RESTART.max_delay_ms / 1000)
                if not self._closing:
                    await self.hire(crew, 1)

    async def close(self) -> None:
        """End the template; it takes all workers with it."""
        self._closing = True
        if self._wire is not None:
            self._hang_up()
            with suppress(ChildProcessError):
                await asyncio.to_thread(os.waitpid, self._pid, 0)
        for worker in self._living:
            worker.kill()
            worker.forget()


def _set(future: "asyncio.Future[_T] | None", value: "_T") -> None:
    if future is not None and not future.done():
        future.set_result(value)
