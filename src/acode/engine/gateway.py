"""The daemon's side of the gateway: holds its sockets, starts it when somebody calls.

The sockets belong to the daemon, so a gateway that dies refuses nobody: callers wait until the
next one is up. A gateway that nobody needs is not even started.
"""

import asyncio
import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec

import msgspec

from acode.clock import ticks
from acode.errors import PortTaken
from acode.keys import token
from acode.model.event import PoolNote
from acode.observe.events import Events
from acode.policy.restart import Restart, RestartAfter, after_crash, consecutive
from acode.project import Project
from acode.settings import Settings
from acode.sockets import listen

NEEDS = ("fastapi", "nicegui", "prometheus_client", "uvicorn", "uvloop", "websockets")
"""What the extra `web` brings."""
TRIES = 200
"""So many ports beyond the default one are tried."""
STOP_SECONDS = 3.0
PATIENCE = 3
"""After so many failed starts in a row callers are turned away."""
RESTART = Restart(
    delay_ms=100, max_delay_ms=30_000, max_restarts=1_000_000_000, healthy_after_ms=60_000
)


class GatewayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Given as JSON on the gateway's command line."""

    root: str
    config: str | None
    url: str
    parent: int
    sockets: tuple[int, ...]
    """Descriptors that it listens at."""


def is_installed() -> bool:
    """Whether the extra `web` is there."""
    return all(find_spec(name) is not None for name in NEEDS)


class GatewayKeeper:
    """One gateway at a time, started by the first caller after the last one died."""

    def __init__(
        self, project: Project, settings: Settings, config: str | None, events: Events
    ) -> None:
        self._project = project
        self._api = settings.api
        self._config = config
        self._events = events
        self._sockets: list[socket.socket] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._pidfd: int | None = None
        self._started = 0.0
        self._restarts = 0
        self._stopping = False
        self.url: str | None = None

    def open(self) -> None:
        """Take the port, or refuse; a gateway that cannot be had is a note and no failure."""
        if not self._api.enabled:
            return
        if not is_installed():
            self._note("info", "no HTTP API and no dashboard: pip install 'acode[web]' brings them")
            return
        token(self._project)
        wire = _bind(self._api.host, self._api.port, may_move=self._api.port_may_move)
        self._sockets = [wire, listen(self._project.api_socket)]
        self.url = _url(wire)
        self._note("info", f"HTTP API and dashboard at {self.url}")

    def start(self) -> None:
        """Wait for the first caller."""
        loop = asyncio.get_running_loop()
        for each in self._sockets:
            loop.add_reader(each.fileno(), self._called)

    def _called(self) -> None:
        self._listen_no_more()
        try:
            self._spawn()
        except OSError as error:
            self._note("error", f"the gateway cannot be started: {error}")
            self._start_later()

    def _listen_no_more(self) -> None:
        loop = asyncio.get_running_loop()
        for each in self._sockets:
            loop.remove_reader(each.fileno())

    def _spawn(self) -> None:
        numbers = tuple(each.fileno() for each in self._sockets)
        options = GatewayOptions(
            root=self._project.root,
            config=self._config,
            url=self.url or "",
            parent=os.getpid(),
            sockets=numbers,
        )
        words = msgspec.json.encode(options).decode()
        output = os.path.join(self._project.logs_dir, "gateway.out")
        with open(output, "ab") as file:
            self._process = subprocess.Popen(  # noqa: S603 -- our own program
                [sys.executable, "-P", "-m", "acode.gateway.main", words],
                pass_fds=numbers,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=_environment(os.environ),
                start_new_session=True,
            )
        self._started = ticks()
        self._pidfd = os.pidfd_open(self._process.pid)
        asyncio.get_running_loop().add_reader(self._pidfd, self._ended)

    def _ended(self) -> None:
        code = self._let_go()
        if self._stopping:
            return
        ran_for = round((ticks() - self._started) * 1000)
        self._restarts = consecutive(self._restarts, ran_for, RESTART)
        self._note("warning", f"the gateway ended with {code}; the next caller starts another")
        if self._restarts >= PATIENCE:
            self._turn_away()
        self._start_later()

    def _turn_away(self) -> None:
        """It does not come up: whoever waits is better off with an error than without an end."""
        self._note("error", f"the gateway does not start: see {self._project.logs_dir}/gateway.out")
        for each in self._sockets:
            with suppress(BlockingIOError):
                while True:
                    each.accept()[0].close()

    def _let_go(self) -> int | None:
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        return self._process.poll() if self._process else None

    def _start_later(self) -> None:
        next_step = after_crash(self._restarts, RESTART)
        self._restarts += 1
        delay = next_step.delay_ms if isinstance(next_step, RestartAfter) else RESTART.max_delay_ms
        asyncio.get_running_loop().call_later(delay / 1000, self._start_again)

    def _start_again(self) -> None:
        if not self._stopping:
            self.start()

    async def stop(self) -> None:
        """End the gateway and give the port back."""
        self._stopping = True
        self._listen_no_more()
        if self._process is not None and self._pidfd is not None:
            self._process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(_wait, self._process)
        self._let_go()
        for each in self._sockets:
            each.close()
        if self._sockets:
            with suppress(FileNotFoundError):
                os.unlink(self._project.api_socket)

    def _note(self, level: str, message: str) -> None:
        self._events.emit(PoolNote(level, message))


def _wait(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    # Nothing of what NiceGUI would like to keep on disk is needed.
    return {**environ, "NICEGUI_STORAGE_PATH": os.devnull}


def _bind(host: str, port: int, *, may_move: bool) -> socket.socket:
    """A listening socket at the port; at the next free one where that will do."""
    for candidate in range(port, min(port + TRIES, 65_536) if may_move else port + 1):
        try:
            return _listen(host, candidate)
        except OSError as error:
            if may_move and error.errno == errno.EADDRINUSE:
                continue
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise PortTaken(f"{host}:{candidate} cannot be used: {reason}") from error
    raise PortTaken(f"no port from {port} to {port + TRIES - 1} is free at {host}")


def _listen(host: str, port: int) -> socket.socket:
    family, kind, number, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    wire = socket.socket(family, kind, number)
    try:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        wire.bind(address)
        wire.listen(1024)
        wire.setblocking(False)
    except BaseException:
        wire.close()
        raise
    return wire


def _url(wire: socket.socket) -> str:
    host, port = wire.getsockname()[:2]
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 -- what was set
    return f"http://[{here}]:{port}" if ":" in here else f"http://{here}:{port}"
