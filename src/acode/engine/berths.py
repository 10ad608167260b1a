"""The containers of the pool: one for each worker that needs one, made, watched and removed."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import msgspec

from acode.engine.fitting import Fitting
from acode.engine.roster import Roster, Slot
from acode.errors import AcodeError
from acode.model.event import PoolNote
from acode.model.worker import ProcessIdentity
from acode.observe.events import Events
from acode.runner.container import leaks
from acode.runner.container.api import Api, EngineError
from acode.runner.container.discovery import Engine, find_engine
from acode.runner.container.images import ensure_image
from acode.runner.container.life import NoShell, Owner, dismiss, launch, layer_bytes
from acode.runner.container.plan import Plan
from acode.runner.container.seat import Seat, Wanted
from acode.runner.container.stats import Meter, Used

T = TypeVar("T")

CALLS_AT_ONCE = 16
SWEEP_SECONDS = 60.0
HEAVY_SHARE = 0.25
"""Of the disk that one attempt may use."""
MAX_ATTEMPTS = 500
"""A container that has served so many is replaced: what they left in its layer goes with it."""


class Berth:
    """A worker's container, and what is known of it."""

    def __init__(self, seat: Seat, wanted: Wanted, meter: Meter) -> None:
        self.seat = seat
        self.wanted = wanted
        self.meter = meter
        self.owner: ProcessIdentity | None = None
        """The worker as it was when this was made: its directories went with it."""
        self.footing: tuple[int, ...] = ()
        """What its mounts are tied to."""
        self.used = Used()
        self.attempts = 0
        self.is_spent = False
        """Not to be used again."""
        self.told_high: list[str] = []
        self.stood_still = 0
        """How many looks in a row found nobody there who could take an order."""
        self.layer_bytes = 0
        """How large its own layer was when last looked at."""
        self.layer_before = 0
        """The same when the present attempt began."""


class Berths:
    """Makes containers when they are needed; everything that waits for the engine is a thread's."""

    def __init__(
        self, fitting: Fitting, environ: Mapping[str, str], roster: Roster, events: Events
    ) -> None:
        self._fitting = fitting
        self._environ = dict(environ)
        self._roster = roster
        self._events = events
        self._berths: dict[str, Berth] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._engine: Engine | None = None
        self._without_shell: set[str] = set()
        """Images that were found to have none."""
        self._threads: ThreadPoolExecutor | None = None
        self._sweep_in = 0.0

    async def _call(self, work: Callable[[], T]) -> T:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(CALLS_AT_ONCE, "engine")
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    # Having one.

    async def engine(self) -> Engine:
        """The engine, looked for once; again if it was lost."""
        if self._engine is None:
            host = self._fitting.docker.host
            self._engine = await self._call(lambda: find_engine(host, self._environ))
            found = self._engine
            note = f"containers by {found.name} {found.version} at {found.socket}"
            self._events.emit(PoolNote("info", note))
        return self._engine

    async def have(self, slot: Slot, wanted: Wanted) -> Seat:
        """A container as it is wanted for this worker: the one it has, or a new one."""
        async with self._locks.setdefault(slot.id, asyncio.Lock()):
            berth = self._berths.get(slot.id)
            if berth is not None and not self._fits(berth, slot, wanted):
                await self._let_go(slot.id)
                berth = None
            if berth is not None and berth.wanted != wanted:
                berth = await self._adjusted(slot, berth, wanted)
            if berth is None:
                berth = await self._make(slot, wanted)
            berth.attempts += 1
            berth.layer_before = berth.layer_bytes
            return berth.seat

    def _fits(self, berth: Berth, slot: Slot, wanted: Wanted) -> bool:
        was = berth.wanted
        same = was.image == wanted.image and was.project_writable == wanted.project_writable
        lives = not berth.is_spent and berth.attempts < MAX_ATTEMPTS
        stands = berth.owner == slot.process and berth.footing == self._fitting.footing(slot.id)
        return same and lives and stands

    async def _make(self, slot: Slot, wanted: Wanted) -> Berth:
        engine = await self.engine()
        try:
            seat, meter = await self._call(lambda: self._launch(engine, slot.id, wanted))
        except EngineError as error:
            self._notice(error)
            self._events.emit(PoolNote("error", f"worker-{slot.id}: no container: {error}"))
            raise
        berth = self._berths[slot.id] = Berth(seat, wanted, meter)
        berth.owner, berth.footing = slot.process, self._fitting.footing(slot.id)
        slot.container_id = seat.container_id
        return berth

    def _launch(self, engine: Engine, worker_id: str, wanted: Wanted) -> tuple[Seat, Meter]:
        """In a thread: everything from the image to a supervisor that answers."""
        api = engine.api
        plan, owner, home = self._fitting.plan(engine, worker_id, wanted)
        ensure_image(api, plan.image, self._fitting.pulling)
        seconds = self._fitting.docker.start_timeout_seconds
        seat = self._launched(api, plan, owner, seconds, home)
        with open(f"{plan.control}.json", "wb") as file:
            file.write(msgspec.json.encode((seat, wanted)))
        return seat, Meter(api, seat.container_id)

    def _launched(self, api: Api, plan: Plan, owner: Owner, seconds: float, home: str) -> Seat:
        """Held by a supervisor, or by a keeper where the image has no shell; it remembers which."""
        if plan.image not in self._without_shell:
            try:
                return launch(api, plan, owner, seconds, home)
            except NoShell:
                self._without_shell.add(plan.image)
        return launch(api, msgspec.structs.replace(plan, has_shell=False), owner, seconds, home)

    async def _adjusted(self, slot: Slot, berth: Berth, wanted: Wanted) -> Berth | None:
        """The same container with other limits; None if it has to be another one."""
        ceiling = self._fitting.ceiling(wanted)
        engine, container = await self.engine(), berth.seat.container_id
        memory = ceiling.memory_mb * 1024 * 1024
        body = {
            "Memory": memory,
            "MemorySwap": memory,
            "NanoCpus": round(ceiling.cpus * 1_000_000_000),
        }
        try:
            await self._call(lambda: engine.api.post(f"/containers/{container}/update", body))
        except EngineError:
            await self._let_go(slot.id)
            return None
        berth.wanted = wanted
        berth.seat = msgspec.structs.replace(berth.seat, memory_mb=ceiling.memory_mb)
        return berth

    def _notice(self, error: EngineError) -> None:
        """An engine that does not answer is looked for anew."""
        if error.status == 0:
            self._engine = None

    # Letting go.

    def spend(self, worker_id: str) -> None:
        """Its container is of no more use."""
        if (berth := self._berths.get(worker_id)) is not None:
            berth.is_spent = True

    async def let_go(self, worker_id: str) -> None:
        """The worker is gone for good, and its container with it."""
        async with self._locks.setdefault(worker_id, asyncio.Lock()):
            await self._let_go(worker_id)
        self._locks.pop(worker_id, None)

    async def _let_go(self, worker_id: str) -> None:
        berth = self._berths.pop(worker_id, None)
        if berth is None:
            return
        slot = self._roster.get(worker_id)
        if slot is not None:
            slot.container_id = slot.container_used = None
        fitting, seat = self._fitting, berth.seat
        try:
            api = (await self.engine()).api
            seconds = fitting.docker.stop_timeout_seconds
            await self._call(lambda: dismiss(api, seat, keep=fitting.keep, stop_seconds=seconds))
        except AcodeError as error:
            # The sweep finds it, now or when the engine is back.
            note = f"the container of worker-{worker_id} cannot be removed: {error}"
            self._events.emit(PoolNote("warning", note))

    async def adopt(self) -> None:
        """Containers of workers that outlived the daemon before; the rest is swept away."""
        for found in await self._ours():
            slot = self._roster.get(str(_labels(found).get(leaks.WORKER)))
            if slot is not None and found.get("State") == "running":
                await self._take_over(slot, str(found["Id"]))
        self._sweep_in = 0.0

    async def _take_over(self, slot: Slot, container_id: str) -> None:
        seat, wanted = self._remembered(slot.id)
        if seat is None or seat.container_id != container_id:
            return  # not whole when its daemon died: the next task has it replaced
        engine = await self.engine()
        try:
            meter = await self._call(lambda: Meter(engine.api, container_id))
        except EngineError:
            return
        berth = self._berths[slot.id] = Berth(seat, wanted, meter)
        berth.owner, berth.footing = slot.process, self._fitting.footing(slot.id)
        slot.container_id = container_id

    def _remembered(self, worker_id: str) -> tuple[Seat | None, Wanted]:
        try:
            with open(f"{self._fitting.control_of(worker_id)}.json", "rb") as file:
                return msgspec.json.decode(file.read(), type=tuple[Seat, Wanted])
        except (OSError, msgspec.MsgspecError):
            return None, Wanted()

    async def _ours(self) -> list[dict[str, Any]]:
        try:
            api = (await self.engine()).api
            return await self._call(lambda: leaks.ours(api))
        except AcodeError:
            return []

    async def close(self) -> None:
        """Remove all that are left."""
        # Those that are on their way out, too: a call to an engine would keep us from ending.
        await asyncio.gather(*(self.let_go(name) for name in {*self._berths, *self._locks}))
        if self._engine is not None:
            await self._sweep()
        self._fitting.release()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    # Watching.

    async def tick(self) -> float:
        """One look at every container; how long to rest."""
        rest = self._fitting.docker.stats_interval_seconds
        if self._berths:
            await asyncio.gather(*(self._look(*each) for each in tuple(self._berths.items())))
            await self._check_health()
        self._sweep_in -= rest
        if self._engine is not None and self._sweep_in <= 0:
            self._sweep_in = SWEEP_SECONDS
            await self._sweep()
        return rest

    async def _look(self, worker_id: str, berth: Berth) -> None:
        slot = self._roster.get(worker_id)
        if slot is None:
            return
        try:
            used = await self._call(berth.meter.read)
            berth.stood_still = 0 if berth.meter.is_well() else berth.stood_still + 1
            if slot.lease is not None:
                await self._weigh(berth)
        except EngineError as error:
            self._notice(error)
            return
        written = max(0, berth.layer_bytes - berth.layer_before)
        slot.container_used = berth.used = msgspec.structs.replace(used, layer_bytes=written)
        high = [] if berth.is_spent else berth.used.high()
        if high and not berth.told_high:
            note = f"the container of worker-{worker_id} is close to its limit: {', '.join(high)}"
            self._events.emit(PoolNote("warning", note))
        berth.told_high = high

    async def _weigh(self, berth: Berth) -> None:
        """What lies in the layer stays there: a container that has become heavy is not kept."""
        engine, container = await self.engine(), berth.seat.container_id
        berth.layer_bytes = await self._call(lambda: layer_bytes(engine.api, container))
        most = self._fitting.ceiling(berth.wanted).disk_mb * 1024 * 1024
        berth.is_spent |= berth.layer_bytes > HEAVY_SHARE * most

    async def _check_health(self) -> None:
        """Replace what is not well: at once if its worker is idle, else with its attempt."""
        states = {str(each["Id"]): each for each in await self._ours()}
        if not states and self._engine is None:
            return  # nobody knows; the engine is looked for with the next task
        for worker_id, berth in tuple(self._berths.items()):
            found = states.get(berth.seat.container_id)
            why = _illness(found) or _stillness(berth)
            slot = self._roster.get(worker_id)
            if why is None or slot is None or berth.is_spent:
                continue
            berth.is_spent = True
            note = f"the container of worker-{worker_id} {why}; it is replaced"
            self._events.emit(PoolNote("warning", note))
            await self._replace(slot, berth)

    async def _replace(self, slot: Slot, berth: Berth) -> None:
        async with self._locks.setdefault(slot.id, asyncio.Lock()):
            if self._berths.get(slot.id) is not berth:
                return  # somebody was quicker
            wanted = berth.wanted
            await self._let_go(slot.id)
            if slot.lease is None and not slot.leaving and slot.link is not None:
                try:
                    await self._make(slot, wanted)
                except AcodeError:
                    return  # it was told; the next task tries again

    async def _sweep(self) -> None:
        try:
            api = (await self.engine()).api
            spared = frozenset(slot.id for slot in self._roster)
            run_dir = self._fitting.run_dir
            for name in await self._call(lambda: leaks.sweep(api, run_dir, spared)):
                self._events.emit(PoolNote("info", f"removed the container {name} of nobody"))
        except EngineError as error:
            self._notice(error)


def _labels(found: dict[str, Any]) -> dict[str, str]:
    return found.get("Labels") or {}


def _stillness(berth: Berth) -> str | None:
    # Twice: whoever debugs it may hold it for a moment.
    return "is unhealthy" if berth.stood_still > 1 else None


def _illness(found: dict[str, Any] | None) -> str | None:
    """What is wrong with a container, if anything is."""
    if found is None:
        return "is gone"
    if found.get("State") not in ("running", "restarting", "created"):
        return f"is {found.get('State')}"
    return "is unhealthy" if "(unhealthy)" in str(found.get("Status")) else None
