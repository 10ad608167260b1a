"""The daemon: startup, main loop, shutdown. One per project."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from acode import settings as preferences
from acode.clock import SystemClock
from acode.engine.control import Command, ControlServer
from acode.engine.engine import Engine
from acode.engine.gateway import GatewayKeeper
from acode.engine.lock import DaemonLock
from acode.engine.neighbours import reachable
from acode.engine.options import DaemonOptions
from acode.engine.roster import LIVE
from acode.engine.status import pool_view
from acode.engine.tools import locate, version
from acode.errors import AcodeError, PoolNotRunning, StoreUnusable
from acode.hosts import my_host_id
from acode.ids import host_name
from acode.keys import peer_key
from acode.model.event import PoolEvent, PoolNote, WorkerCrashed, WorkerFailed
from acode.model.host import Host
from acode.observe.events import Events
from acode.observe.journal import level_of, line_of
from acode.observe.log import LogFile
from acode.observe.logformat import LEVELS, Context
from acode.project import Project
from acode.runner.cgroup import Place, find_place, make_room
from acode.runner.gaps import sandbox_gaps
from acode.runner.identity import boot_id
from acode.runner.tree import become_subreaper, reap_children
from acode.settings.derived import usual_limits
from acode.worker.config import SandboxRules, WorkerConfig


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
        self._ready = asyncio.Event()
        self._start_failures: list[str] = []
        self._events = Events()
        self._journal = self._open_journal()

    async def run(self) -> None:
        """Live."""
        lock = DaemonLock(self._project.daemon_lock)
        lock.take()
        try:
            await self._startup()
            await self._stopping.wait()
            await self._shutdown()
        finally:
            lock.release()

    async def _startup(self) -> None:
        self._events.subscribe(self._write_down)
        self._events.subscribe(self._notice_failure, WorkerCrashed, WorkerFailed)
        tools = locate(self._settings.tools.required)
        self._log_gaps()  # looks by forking, which is for the time before there are threads
        self._listen_to_signals()
        # First of all: a port that cannot be had is refused before anything is begun.
        self._gateway = GatewayKeeper(
            self._project, self._settings, self._options.config, self._events
        )
        self._gateway.open()
        self._engine = Engine(
            self._project,
            self._settings,
            self._worker_config(),
            os.environ,
            self._clock,
            self._events,
            self._host(),
        )
        self._control = ControlServer(
            self._project.control_socket, self._commands(), self._confined_workers
        )
        await self._control.start()
        await self._engine.start(self._first_size())
        await self._engine.pool.settle()
        self._gateway.start()
        self._ready.set()
        self._tell_ready()
        await self._log_versions(tools)

    def _log_gaps(self) -> None:
        sandbox = self._settings.sandbox
        for gap in sandbox_gaps(
            sandbox.level, sandbox.network, self._project.root, sandbox.write_paths
        ):
            self._events.emit(PoolNote("warning", f"tasks are not kept from {gap}"))

    async def _shutdown(self) -> None:
        self._events.emit(PoolNote("info", "stopping"))
        await self._engine.stop(hurry=lambda: self._hurried)
        await self._control.stop()
        await self._gateway.stop()
        await self._engine.close()
        self._events.emit(PoolNote("info", "stopped"))
        self._journal.close()

    def _host(self) -> Host:
        """Who we are to others that share the queue."""
        self._project.prepare()
        host_id = my_host_id(self._project, self._clock.now())
        return Host(
            id=host_id,
            name=host_name(host_id) or host_id,
            boot_id=boot_id(),
            pid=os.getpid(),
            address=reachable(self._gateway.url, self._settings),
            key=peer_key(self._project),
            runs={"mode": self._settings.workers.mode, "directory": self._project.root},
        )

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
            tools=self._settings.tools.required,
            limits=usual_limits(self._settings),
            cgroup=_place_of_groups(),
            author=self._settings.results.author,
            push=self._settings.results.push,
            sandbox=self._sandbox(),
            blocked_commands=self._settings.sandbox.blocked_commands,
            strategy=self._settings.workers.worktree.strategy,
            warm=self._settings.workers.worktree.warm,
            copy_ignored=self._settings.workers.worktree.copy_ignored,
            max_artifact_mb=self._settings.workers.limits.disk_mb,
            keep_workspaces=self._options.keep_worktrees
            or self._settings.workers.process.keep_worktrees,
        )

    def _confined_workers(self) -> set[int]:
        """The workers whose tasks must not tell us what to do."""
        if self._settings.sandbox.level == "off":
            return set()
        return {slot.process.pid for slot in self._engine.roster if slot.process is not None}

    def _sandbox(self) -> SandboxRules:
        sandbox = self._settings.sandbox
        return SandboxRules(
            level=sandbox.level,
            network=sandbox.network,
            write_paths=self._absolute(sandbox.write_paths),
            read_paths=self._absolute(sandbox.read_paths),
        )

    def _absolute(self, paths: Iterable[str]) -> tuple[str, ...]:
        root = self._project.root
        return tuple(os.path.join(root, os.path.expanduser(path)) for path in paths)

    # Notes that others leave.

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ask_to_stop, False)
        # Workers whose zygote is gone, and what they leave, are our own children.
        loop.add_signal_handler(signal.SIGCHLD, reap_children)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _ask_to_stop(self, force: bool) -> None:
        """Once: drain. Twice, or with force: release what runs."""
        self._hurried = force or self._stopping.is_set()
        self._stopping.set()

    def _commands(self) -> dict[str, Command]:
        return {
            "status": self._status,
            "scale": self._scale,
            "size": self._size,
            "stop": self._stop,
            "lift": self._lift,
            "recovery": self._recovery,
            "feed": self._feed,
            "figures": self._figures,
            "governance": self._governance,
        }

    async def _status(self, _request: dict[str, Any]) -> dict[str, Any]:
        try:
            counts = await self._engine.counts()
        except StoreUnusable as error:
            if not self._stopping.is_set():
                raise
            raise PoolNotRunning("the worker pool has stopped") from error
        view = pool_view(
            self._engine.membership.host.name,
            self._engine.workers(),
            counts,
            self._engine.dispatcher,
            self._clock.now() - self._started_at,
            self._settings.workers.mode,
        )
        if self._settings.store.is_shared:
            here = {"name": view["host"], "isThis": True, "isCurrent": self._engine.store_answers}
            view["hosts"] = [here]
        return {**view, "apiUrl": self._gateway.url}

    async def _scale(self, request: dict[str, Any]) -> dict[str, Any]:
        await self._ready.wait()
        if self._stopping.is_set():
            raise PoolNotRunning("the worker pool is stopping", "start it again when it is gone")
        count, clamped = await self._engine.pool.scale(int(request["count"]))
        return {"count": count, "message": clamped}

    async def _size(self, _request: dict[str, Any]) -> dict[str, Any]:
        return {"wanted": self._engine.roster.wanted}

    async def _stop(self, request: dict[str, Any]) -> dict[str, Any]:
        if request.get("force"):
            self._ask_to_stop(True)
        self._stopping.set()
        return {"stopping": True, "pid": os.getpid()}

    async def _lift(self, _request: dict[str, Any]) -> dict[str, Any]:
        self._engine.dispatcher.pauses.lift()
        self._engine.bell.ring()
        return {}

    async def _recovery(self, _request: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self._engine.recovery)
        return found

    async def _feed(self, _request: dict[str, Any]) -> dict[str, Any]:
        return {"newestMove": await self._engine.reporting.feed.flush()}

    async def _figures(self, _request: dict[str, Any]) -> dict[str, Any]:
        await self._engine.reporting.count_arrivals()
        figures = self._engine.reporting.figures
        return {**figures.view(), "samples": list(figures.samples)}

    async def _governance(self, _request: dict[str, Any]) -> dict[str, Any]:
        return await self._engine.reporting.state()

    # What others read.

    def _open_journal(self) -> LogFile:
        return LogFile(
            self._project.daemon_log,
            Context(),
            max_bytes=self._settings.logging.max_size_mb * 1024 * 1024,
            max_files=self._settings.logging.max_files,
        )

    def _write_down(self, event: PoolEvent) -> None:
        level = level_of(event)
        if LEVELS.index(level) >= LEVELS.index(self._settings.logging.level):
            line = line_of(event)
            tag = "DIWX"[LEVELS.index(level)]
            self._journal.write(tag, f"{line}\n".encode(), self._clock.now())
            if self._options.foreground:
                with suppress(OSError):  # whoever read it has gone; the log has it anyway
                    sys.stderr.write(f"{level}: {line}\n")

    def _notice_failure(self, event: PoolEvent) -> None:
        if isinstance(event, WorkerCrashed | WorkerFailed) and not self._ready.is_set():
            self._start_failures.append(event.reason)

    def _tell_ready(self) -> None:
        # Adopted workers that are too many are about to leave, and count neither way.
        staying = self._engine.roster.staying()
        started = sum(1 for slot in staying if slot.status in LIVE)
        if not started:
            self._hurried = True
            self._stopping.set()
        if self._options.ready is not None:
            reasons = list(dict.fromkeys(self._start_failures))
            facts = {"workers": len(staying), "started": started, "reasons": reasons}
            told = {"ok": {**facts, "apiUrl": self._gateway.url}}
            with suppress(OSError):  # whoever started us did not wait
                os.write(self._options.ready, msgspec.json.encode(told) + b"\n")
            os.close(self._options.ready)

    async def _log_versions(self, tools: dict[str, str]) -> None:
        asked = [asyncio.to_thread(version, path) for path in tools.values()]
        for (tool, path), said in zip(tools.items(), await asyncio.gather(*asked), strict=True):
            self._events.emit(PoolNote("info", f"tool {tool} is {path}: {said}"))


def _place_of_groups() -> Place | None:
    """Where workers make their control groups, if they can and are wanted."""
    place = find_place() if os.environ.get("ACODE_CGROUPS") != "off" else None
    return make_room(place) if place else None


def _settings(options: DaemonOptions, project: Project) -> preferences.Settings:
    path = options.config or project.config_file
    there = options.config is not None or os.path.exists(path)
    settings = preferences.load(path if there else None, os.environ)
    docker = settings.workers.docker
    keep = options.keep_containers or docker.keep_containers
    workers = replace(
        settings.workers,
        count=options.count or settings.workers.count,
        mode=options.mode or settings.workers.mode,
        docker=replace(docker, keep_containers=keep),
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
        problem = {"code": error.code, "message": str(error), "hint": error.hint}
        told = {"error": {**problem, "exit_code": error.exit_code}}
        if options.ready is not None:
            os.write(options.ready, msgspec.json.encode(told) + b"\n")
        sys.stderr.write(f"acode: {error.code}: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
