"""The daemon: startup, main loop, shutdown. One per project."""

import asyncio
import os
import signal
import sys
from typing import Any

import msgspec
from msgspec.structs import replace

from acode import project as projects
from acode import settings as preferences
from acode.clock import SystemClock
from acode.engine.bell import Bell, BellSocket
from acode.engine.control import Command, ControlServer
from acode.engine.dispatcher import Dispatcher
from acode.engine.lock import DaemonLock
from acode.engine.orders import Orders
from acode.engine.pool import Pool
from acode.engine.recovery import Recoverer, Recovery
from acode.engine.roster import Roster
from acode.engine.service import Service
from acode.engine.status import pool_view
from acode.engine.supervisor import Supervisor
from acode.errors import AcodeError
from acode.model.event import PoolEvent, PoolNote
from acode.model.priority import MINUTE_MS
from acode.model.task import Mode
from acode.observe.events import Events
from acode.observe.journal import line_of
from acode.observe.log import LogFile
from acode.observe.logformat import LEVELS, Context
from acode.policy.restart import Restart
from acode.runner.environment import inheritable
from acode.runner.tree import become_subreaper
from acode.runner.usage import Sampler
from acode.store.sqlite import SqliteStore
from acode.worker.messages import WorkerConfig


class DaemonOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What `worker start` wants beyond the settings. Given as JSON on the command line."""

    root: str
    config: str | None = None
    count: int | None = None
    mode: Mode | None = None
    autoscale: bool = False
    ready: int | None = None
    """A descriptor to write a line of JSON to as soon as every worker is idle or has failed."""


class Daemon:
    """Everything that runs a pool, put together."""

    def __init__(self, options: DaemonOptions) -> None:
        self.options = options
        self.project = projects.Project(options.root)
        self.settings = _settings(options, self.project)
        self.clock = SystemClock()
        self.started_at = self.clock.now()
        self.stopping = asyncio.Event()
        self.hurried = False
        self.lock = DaemonLock(f"{self.project.run_dir}/daemon.lock")

    async def run(self) -> None:
        """Live."""
        self.lock.take()
        try:
            await self.startup()
            await self.stopping.wait()
            await self.shutdown()
        finally:
            self.lock.release()

    async def startup(self) -> None:
        """Put the parts together, recover, fill the pool, then begin to claim."""
        settings, run_dir = self.settings, self.project.run_dir
        for folder in ("workers", "spool", "tmp", "checkpoints"):
            os.makedirs(f"{run_dir}/{folder}", exist_ok=True)
        self.events = Events()
        self.journal = LogFile(
            self.project.daemon_log,
            Context(),
            max_bytes=settings.logging.max_size_mb * 1024 * 1024,
            max_files=settings.logging.max_files,
        )
        self.events.subscribe(self._write_down)
        self.bell = Bell()
        self.store = SqliteStore.open(
            self.project.queue_db,
            self.clock,
            ageing_ms=round(settings.tasks.ageing_minutes * MINUTE_MS),
        )
        roster = Roster(self.events)
        orders = Orders(settings, self.project.root, os.environ)
        dispatcher = Dispatcher(self.store, roster, orders, settings, self.clock, self.events)
        self.supervisor = Supervisor(
            roster,
            dispatcher,
            inheritable(
                os.environ, deny=settings.environment.deny, passed=settings.environment.pass_
            ),
            self._worker_config(),
            Restart(
                delay_ms=settings.workers.process.restart_delay_ms,
                max_delay_ms=settings.workers.process.max_restart_delay_ms,
                max_restarts=settings.workers.process.max_restarts,
            ),
            self.clock,
            self.events,
            self.bell,
        )
        self.pool = Pool(roster, self.supervisor, dispatcher, settings, self.clock, self.events)
        self.sampler = Sampler()
        self.recovery = Recovery()
        self._listen_to_signals()
        self.control = ControlServer(f"{run_dir}/control.sock", self._commands())
        await self.control.start()
        recoverer = Recoverer(self.store, roster, self.supervisor, dispatcher, self.events, run_dir)
        self.recovery = await recoverer.recover(settings.workers.mode)
        self.bell_socket = BellSocket(f"{run_dir}/bell.sock", self.bell)
        await self.pool.fill(self._first_size(), settings.workers.mode)
        self.services = [Service("dispatcher", dispatcher.tick, self.bell)]
        self.services.append(Service("health", self.pool.watch_health))
        if self.options.autoscale or settings.autoscale.enabled:
            self.services.append(Service("autoscaler", self.pool.autoscale))
        for service in self.services:
            service.start()
        self._tell_ready()

    def _first_size(self) -> int:
        if self.options.count is None and (
            self.options.autoscale or self.settings.autoscale.enabled
        ):
            return self.settings.autoscale.initial
        return self.settings.workers.count

    def _worker_config(self) -> WorkerConfig:
        base = self.settings.workers.worktree.base_dir
        return WorkerConfig(
            id="",
            project_root=self.project.root,
            agent_dir=self.project.agent_dir,
            config_file=self.options.config or self.project.config_file,
            worktrees=os.path.join(self.project.root, base),
            heartbeat_ms=self.settings.workers.heartbeat_interval_ms,
            on_daemon_exit=self.settings.workers.on_daemon_exit,
            log_max_bytes=self.settings.logging.max_size_mb * 1024 * 1024,
            log_max_files=self.settings.logging.max_files,
        )

    async def shutdown(self) -> None:
        """Claim nothing more, drain, release, leave."""
        self.events.emit(PoolNote("info", "stopping"))
        await self.pool.drain(hurry=lambda: self.hurried)
        for service in self.services:
            await service.stop()
        self.bell_socket.close()
        await self.control.stop()
        await self.supervisor.close()
        await self.store.close()
        self.events.emit(PoolNote("info", "stopped"))
        self.journal.close()

    # Notes that others leave.

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.ask_to_stop, False)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def ask_to_stop(self, force: bool) -> None:
        """Once: drain. Twice, or with force: release what runs."""
        self.hurried = force or self.stopping.is_set()
        self.stopping.set()

    def _commands(self) -> dict[str, Command]:
        return {
            "status": self._status,
            "scale": self._scale,
            "stop": self._stop,
            "recovery": self._recovery,
        }

    async def _status(self, _: dict[str, Any]) -> dict[str, Any]:
        counts = await self.store.counts()
        return pool_view(
            self.pool.roster,
            counts,
            self.sampler,
            self.clock,
            self.started_at,
            self.settings.workers.mode,
        )

    async def _scale(self, request: dict[str, Any]) -> dict[str, Any]:
        count, clamped = await self.pool.scale(int(request["count"]))
        return {"count": count, "message": clamped}

    async def _stop(self, request: dict[str, Any]) -> dict[str, Any]:
        self.ask_to_stop(bool(request.get("force")))
        return {"stopping": True, "pid": os.getpid()}

    async def _recovery(self, _: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self.recovery)
        return found

    def _write_down(self, event: PoolEvent) -> None:
        level, line = line_of(event)
        if LEVELS.index(level) >= LEVELS.index(self.settings.logging.level):
            tag = "DIWX"[LEVELS.index(level)]
            self.journal.write(tag, f"{line}\n".encode(), self.clock.now())

    def _tell_ready(self) -> None:
        if self.options.ready is not None:
            os.write(self.options.ready, b'{"ok":true}\n')
            os.close(self.options.ready)


def _settings(options: DaemonOptions, project: projects.Project) -> preferences.Settings:
    path = options.config or project.config_file
    there = options.config is not None or os.path.exists(path)
    settings = preferences.load(path if there else None, os.environ)
    workers = replace(
        settings.workers,
        count=options.count or settings.workers.count,
        mode=options.mode or settings.workers.mode,
    )
    return replace(settings, workers=workers)


def main(argv: list[str]) -> int:
    """Be the daemon; errors go to the one who started it."""
    options = msgspec.json.decode(argv[1], type=DaemonOptions)
    become_subreaper()
    os.chdir(options.root)
    try:
        asyncio.run(Daemon(options).run())
    except AcodeError as error:
        told = {"error": {"code": error.code, "message": str(error), "hint": error.hint}}
        if options.ready is not None:
            os.write(options.ready, msgspec.json.encode(told) + b"\n")
        sys.stderr.write(f"acode: {error.code}: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
