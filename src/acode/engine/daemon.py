"""The daemon: startup, main loop, shutdown. One per project."""

import asyncio
import os
import signal
import sys
from typing import Any

import msgspec
from msgspec.structs import replace

from acode import settings as preferences
from acode.clock import SystemClock
from acode.engine.control import Command, ControlServer
from acode.engine.engine import Engine
from acode.engine.lock import DaemonLock
from acode.engine.status import pool_view
from acode.errors import AcodeError
from acode.model.event import PoolEvent, PoolNote
from acode.model.task import Mode
from acode.observe.events import Events
from acode.observe.journal import line_of
from acode.observe.log import LogFile
from acode.observe.logformat import LEVELS, Context
from acode.project import Project
from acode.runner.tree import become_subreaper
from acode.runner.usage import Sampler
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
    """An engine, the sockets and signals it obeys, and the log it writes."""

    def __init__(self, options: DaemonOptions) -> None:
        self._options = options
        self._project = Project(options.root)
        self._settings = _settings(options, self._project)
        self._clock = SystemClock()
        self._started_at = self._clock.now()
        self._stopping = asyncio.Event()
        self._hurried = False
        self._sampler = Sampler()
        self._events = Events()
        self._journal = self._open_journal()

    async def run(self) -> None:
        """Live."""
        lock = DaemonLock(os.path.join(self._project.run_dir, "daemon.lock"))
        lock.take()
        try:
            await self._startup()
            await self._stopping.wait()
            await self._shutdown()
        finally:
            lock.release()

    async def _startup(self) -> None:
        self._events.subscribe(self._write_down)
        self._listen_to_signals()
        self._engine = Engine(
            self._project,
            self._settings,
            self._worker_config(),
            os.environ,
            self._clock,
            self._events,
        )
        path = os.path.join(self._project.run_dir, "control.sock")
        self._control = ControlServer(path, self._commands())
        await self._control.start()
        await self._engine.start(self._first_size())
        self._tell_ready()

    async def _shutdown(self) -> None:
        self._events.emit(PoolNote("info", "stopping"))
        await self._engine.stop(hurry=lambda: self._hurried)
        await self._control.stop()
        self._events.emit(PoolNote("info", "stopped"))
        self._journal.close()

    def _first_size(self) -> int:
        if self._options.count is None and self._settings.autoscale.enabled:
            return self._settings.autoscale.initial
        return self._settings.workers.count

    def _worker_config(self) -> WorkerConfig:
        base = self._settings.workers.worktree.base_dir
        return WorkerConfig(
            id="",
            project_root=self._project.root,
            agent_dir=self._project.agent_dir,
            config_file=self._options.config or self._project.config_file,
            worktrees=os.path.join(self._project.root, base),
            heartbeat_ms=self._settings.workers.heartbeat_interval_ms,
            on_daemon_exit=self._settings.workers.on_daemon_exit,
            log_max_bytes=self._settings.logging.max_size_mb * 1024 * 1024,
            log_max_files=self._settings.logging.max_files,
        )

    # Notes that others leave.

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ask_to_stop, False)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _ask_to_stop(self, force: bool) -> None:
        """Once: drain. Twice, or with force: release what runs."""
        self._hurried = force or self._stopping.is_set()
        self._stopping.set()

    def _commands(self) -> dict[str, Command]:
        return {
            "status": self._status,
            "scale": self._scale,
            "stop": self._stop,
            "recovery": self._recovery,
        }

    async def _status(self, _request: dict[str, Any]) -> dict[str, Any]:
        return pool_view(
            self._engine.roster,
            await self._engine.store.counts(),
            self._sampler,
            self._clock,
            self._started_at,
            self._settings.workers.mode,
        )

    async def _scale(self, request: dict[str, Any]) -> dict[str, Any]:
        count, clamped = await self._engine.pool.scale(int(request["count"]))
        return {"count": count, "message": clamped}

    async def _stop(self, request: dict[str, Any]) -> dict[str, Any]:
        self._ask_to_stop(bool(request.get("force")))
        return {"stopping": True, "pid": os.getpid()}

    async def _recovery(self, _request: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self._engine.recovery)
        return found

    # What others read.

    def _open_journal(self) -> LogFile:
        return LogFile(
            self._project.daemon_log,
            Context(),
            max_bytes=self._settings.logging.max_size_mb * 1024 * 1024,
            max_files=self._settings.logging.max_files,
        )

    def _write_down(self, event: PoolEvent) -> None:
        level, line = line_of(event)
        if LEVELS.index(level) >= LEVELS.index(self._settings.logging.level):
            tag = "DIWX"[LEVELS.index(level)]
            self._journal.write(tag, f"{line}\n".encode(), self._clock.now())

    def _tell_ready(self) -> None:
        if self._options.ready is not None:
            os.write(self._options.ready, b'{"ok":true}\n')
            os.close(self._options.ready)


def _settings(options: DaemonOptions, project: Project) -> preferences.Settings:
    path = options.config or project.config_file
    there = options.config is not None or os.path.exists(path)
    settings = preferences.load(path if there else None, os.environ)
    workers = replace(
        settings.workers,
        count=options.count or settings.workers.count,
        mode=options.mode or settings.workers.mode,
    )
    autoscale = replace(settings.autoscale, enabled=options.autoscale or settings.autoscale.enabled)
    return replace(settings, workers=workers, autoscale=autoscale)


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
