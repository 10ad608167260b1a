"""The worker: answers the daemon, runs attempts, and goes on when the daemon is gone."""

import os
import random
import shutil
import signal
import socket
from math import inf

from msgspec import Raw, convert
from msgspec.structs import replace

from acode.clock import Clock, SystemClock, ticks
from acode.ids import new_id
from acode.model.ending import Exited, Released, Signalled
from acode.observe.log import OutputLog
from acode.policy.failures import explain
from acode.runner.identity import myself
from acode.runner.manners import interrupt_nobody
from acode.runner.peers import is_below
from acode.runner.tree import become_subreaper, die_with_parent
from acode.sockets import is_trusted
from acode.worker.attempt import Attempt
from acode.worker.bounds import Bounds
from acode.worker.config import WorkerConfig
from acode.worker.exits import ExitCode
from acode.worker.known import known_workers
from acode.worker.loop import Loop
from acode.worker.messages import (
    Action,
    Assignment,
    Control,
    Current,
    Ended,
    Exceeded,
    Heartbeat,
    Note,
    Tenure,
    Why,
)
from acode.worker.places import Shelves
from acode.worker.spool import Spool
from acode.worker.stewards import Stewards
from acode.worker.tenure import TenureWatch, Urgency
from acode.worker.wire import BrokenFrame, Frame, FrameReader, FrameType, encode, pack, unpack

ORPHAN_SECONDS = 60.0
"""How long a worker without a daemon waits for the next one, its attempt finished."""
TIDY_SECONDS = 30.0
"""How long stewards may take to tidy up when the worker leaves; the next daemon does the rest."""
PREPARE_SECONDS = (0.1, 0.5)
"""When an idle worker prepares for its first attempt: not all at once, and not while others start.
"""
SEND_SECONDS = 5.0
"""A daemon that does not read for that long is as good as gone."""
DOUBT_SECONDS = 0.5
"""A machine that shuts down tells everybody to end, within that long and in any order."""
_ASKED_TO_END = (Signalled(signal.SIGTERM), Exited(ExitCode.TERMINATED))


class Worker:
    """One worker. Everything happens in `run`, one event at a time."""

    def __init__(self, config: WorkerConfig, listener: socket.socket, clock: Clock) -> None:
        self._config = config
        self._listener = listener
        self._clock = clock
        self._loop = Loop()
        self._identity = myself()
        self._inherited = dict(os.environ)
        self._shelves = Shelves(config)
        self._bounds = Bounds(config)
        self._told_enforced: frozenset[str] | None = None
        self._output = OutputLog(
            f"{config.agent_dir}/logs",
            config.id,
            max_bytes=config.log_max_bytes,
            max_files=config.log_max_files,
        )
        self._spool = Spool(f"{config.run_dir}/spool/{config.id}")
        self._daemon: socket.socket | None = None
        self._reader = FrameReader()
        self._attempt: Attempt | None = None
        self._stewards = Stewards(config, self._inherited, self._bounds, self._loop)
        self._tenure = TenureWatch()
        self._unacknowledged: Ended | None = None
        self._doubt_until: float | None = None
        """When an attempt that somebody else has ended counts as failed."""
        self._heartbeat_at = 0.0
        self._prepare_at: float | None = ticks() + random.uniform(*PREPARE_SECONDS)  # noqa: S311
        self._orphan_at = ticks() + ORPHAN_SECONDS
        self._exit: ExitCode | None = None

    def run(self) -> int:
        """Work until somebody says stop; the exit code."""
        self._loop.watch(self._listener.fileno(), self._accept)
        self._loop.on_signal(signal.SIGCHLD, self._on_child)
        self._loop.on_signal(signal.SIGTERM, self._on_terminate)
        self._say("I", f"worker started with pid {self._identity.pid}")
        while self._exit is None or self._attempt is not None:
            due = self._deadline()
            self._loop.run_once(due)
            if ticks() >= due:
                self._on_time()
            self._settle()
        self._leave()
        return self._exit.value

    def _deadline(self) -> float:
        alone_until = self._orphan_at if self._attempt is None else inf
        due = self._heartbeat_at if self._daemon else alone_until
        dues: tuple[float | None, ...] = (
            self._doubt_until,
            self._prepare_at,
            self._bounds.closed_until,
            self._stewards.deadline,
        )
        if self._attempt is not None:
            dues += (self._attempt.deadline, self._tenure.deadline)
        for other in dues:
            if other is not None and other < due:
                due = other
        return due

    def _on_time(self) -> None:
        now = ticks()
        if self._prepare_at is not None and now >= self._prepare_at:
            self._prepare_at = None
            self._bounds.prepare()
        if self._bounds.closed_until is not None and now >= self._bounds.closed_until:
            self._bounds.reopen()
        self._stewards.on_time()
        if self._attempt is not None:
            due = self._attempt.deadline
            if due is not None and now >= due:
                self._attempt.on_time()
            self._heed_tenure(self._attempt)
        if self._daemon is not None and now >= self._heartbeat_at:
            self._send_heartbeat()
        elif self._daemon is None and self._attempt is None and now >= self._orphan_at:
            self._say("W", "no daemon came back; leaving")
            self._exit = ExitCode.CLEAN

    def _heed_tenure(self, attempt: Attempt) -> None:
        """End an attempt in time that others may soon begin again elsewhere."""
        urgency = self._tenure.due()
        if urgency is not None:
            attempt.abort(Why.SILENCE, force=urgency is Urgency.NOW)

    # The daemon comes and goes.

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return
        if not is_trusted(connection) or self._is_task(connection):
            connection.close()
            return
        self._disconnect()
        die_with_parent(0)  # there is a daemon that knows of us
        connection.settimeout(SEND_SECONDS)
        self._daemon = connection
        self._reader = FrameReader()
        self._loop.watch(connection.fileno(), self._receive)
        self._send_heartbeat()

    def _is_task(self, connection: socket.socket) -> bool:
        """Whether a confined task, ours or another worker's, plays the daemon."""
        if self._config.sandbox.level == "off":
            return False
        workers = {process.pid for _, process in known_workers(self._config.run_dir)}
        return is_below(connection, workers)

    def _receive(self) -> None:
        if self._daemon is None:
            return
        try:
            # The loop knows that there is something; a socket with a timeout would ask again.
            data = os.read(self._daemon.fileno(), 1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        try:
            for frame in self._reader.feed(data):
                self._handle(frame)  # trouble with our own work is not the daemon's: we die of it
        except BrokenFrame as error:
            self._say("X", str(error))
            data = b""
        if not data:
            self._on_daemon_gone()

    def _on_daemon_gone(self) -> None:
        self._disconnect()
        self._orphan_at = ticks() + ORPHAN_SECONDS
        self._say("W", "the daemon is gone")
        match self._config.on_daemon_exit:
            case "kill":
                self._exit = ExitCode.CLEAN
                if self._attempt is not None:
                    self._attempt.abort(Why.RELEASE, force=False)
            case "drain":
                self._exit = ExitCode.CLEAN

    def _disconnect(self) -> None:
        if self._daemon is not None:
            self._loop.forget(self._daemon.fileno())
            self._daemon.close()
            self._daemon = None

    def _send(self, kind: FrameType, id_: str, payload: object) -> None:
        if self._daemon is None:
            return
        try:
            _send_all(self._daemon, pack(kind, id_, self._clock.now(), payload))
        except OSError:
            self._on_daemon_gone()

    def _send_heartbeat(self) -> None:
        self._heartbeat_at = ticks() + self._config.heartbeat_ms / 1000
        current = None
        if self._attempt is not None:
            task = self._attempt.assignment
            current = Current(task.task_id, task.token, task.number)
        beat = Heartbeat(
            worker_id=self._config.id,
            process=self._identity,
            current=current,
            ended=self._unacknowledged,
            enforced=tuple(self._bounds.enforced),
            counts=self._bounds.group is not None,
            disk_bytes=self._attempt.disk_bytes if self._attempt else 0,
        )
        self._send(FrameType.HEARTBEAT, new_id(self._clock.now()), beat)

    # What the daemon wants.

    def _handle(self, frame: Frame) -> None:
        match frame.type:
            case FrameType.TASK:
                self._begin(unpack(frame, Assignment))
            case FrameType.CONTROL:
                self._obey(unpack(frame, Control))
            case FrameType.HEARTBEAT:
                self._send_heartbeat()
            case _:
                self._send(FrameType.ERROR, frame.id, Note("error", f"no use for {frame.type}"))

    def _begin(self, assignment: Assignment) -> None:
        if self._attempt is not None:
            self._send(FrameType.ERROR, assignment.token, Note("error", "this worker is busy"))
            return
        self._unacknowledged = None
        self._tenure.begin(assignment.tenure)
        self._attempt = Attempt(
            assignment,
            self._config,
            self._shelves,
            self._output,
            self._clock,
            self._loop,
            self._bounds,
            lambda exceeded: self._send(FrameType.LIMIT, assignment.token, exceeded),
        )
        self._attempt.start(self._inherited, self._stewards)
        self._tell_bounds()
        self._settle()

    def _tell_bounds(self) -> None:
        """What holds our attempts is known with the first of them."""
        if self._bounds.enforced == self._told_enforced:
            return
        self._told_enforced = self._bounds.enforced
        if self._bounds.trouble:
            self._say("W", f"no control group: {self._bounds.trouble}")
        self._send_heartbeat()

    def _obey(self, control: Control) -> None:
        match control.action:
            case Action.ABORT:
                attempt = self._attempt
                if attempt is not None and control.token in (None, attempt.assignment.token):
                    attempt.abort(control.why, force=control.force)
            case Action.ACKNOWLEDGE:
                ended = self._unacknowledged
                if ended is not None and ended.token == control.token:
                    self._unacknowledged = None
            case Action.LIMIT:
                attempt = self._attempt
                if attempt is not None and control.token == attempt.assignment.token:
                    found = convert(control.data, Exceeded)
                    attempt.exceeded(found.over, found.action)
            case Action.EXTEND:
                self._tenure.extend(convert(control.data, Tenure))
            case Action.SHUTDOWN:
                self._exit = ExitCode.CLEAN
                if control.force and self._attempt is not None:
                    self._attempt.abort(Why.RELEASE, force=True)

    # What happens by itself.

    def _on_child(self) -> None:
        self._stewards.reap()
        if self._attempt is not None:
            self._attempt.on_child()
            self._settle()

    def _on_terminate(self) -> None:
        """Asked once: end the attempt gently. Asked again: at once."""
        again = self._exit is ExitCode.TERMINATED
        self._say("W", "terminated by a signal")
        self._exit = ExitCode.TERMINATED
        if self._attempt is not None:
            self._attempt.abort(Why.RELEASE, force=again)

    def _settle(self) -> None:
        """Report an attempt that has ended: to the spool first, then to the daemon."""
        if self._attempt is None or (ended := self._attempt.ended) is None:
            return
        if ended.ending in _ASKED_TO_END:
            if self._exit is ExitCode.TERMINATED:
                ended = replace(ended, ending=Released("interrupted"), failure=None)
            elif self._is_in_doubt():
                return
        attempt, self._attempt, self._doubt_until = self._attempt, None, None
        if self._exit is not None:
            ended = replace(ended, leaves=True)
            if self._exit is ExitCode.CLEAN and _has_failed(ended):
                self._exit = ExitCode.TASK_FAILED
        self._unacknowledged = ended
        words = encode(ended)
        self._spool.keep(words)
        self._orphan_at = ticks() + ORPHAN_SECONDS
        self._send(FrameType.RESULT, ended.token, Raw(words))
        self._bounds.reopen()
        attempt.clean()

    def _is_in_doubt(self) -> bool:
        """Whether we may be asked to end, too, by whoever has asked the command."""
        if self._doubt_until is None:
            self._doubt_until = ticks() + DOUBT_SECONDS
        return ticks() < self._doubt_until

    def _say(self, tag: str, message: str) -> None:
        self._output.write(tag, message.encode() + b"\n", self._clock.now())

    def _leave(self) -> None:
        deadline = ticks() + TIDY_SECONDS
        self._stewards.close()
        while self._stewards.pids and ticks() < deadline:
            self._loop.run_once(deadline)
        self._say("I", f"worker stopped with exit code {self._exit}")
        self._disconnect()
        self._listener.close()
        self._shelves.clear()
        self._spool.close()
        self._bounds.close()
        self._output.close()
        self._loop.close()


def _send_all(wire: socket.socket, data: bytes) -> None:
    """Send everything; nearly always there is room for it at once."""
    try:
        sent = os.write(wire.fileno(), data)
    except BlockingIOError:
        sent = 0
    if sent < len(data):
        wire.sendall(data[sent:])


def _has_failed(ended: Ended) -> bool:
    return ended.failure is not None or explain(ended.ending) is not None


def work(config: WorkerConfig, listener: socket.socket) -> int:
    """Be a worker; the exit code."""
    become_subreaper()
    interrupt_nobody()
    missing = [tool for tool in config.tools if shutil.which(tool) is None]
    if missing:
        return _complain(ExitCode.TOOL_NOT_FOUND, config, f"{', '.join(missing)} not found")
    try:
        os.chdir(config.run_dir)
        worker = Worker(config, listener, SystemClock())
    except OSError as error:
        return _complain(ExitCode.CONFIGURATION, config, str(error))
    return worker.run()


def _complain(code: ExitCode, config: WorkerConfig, why: str) -> int:
    os.write(2, f"worker-{config.id}: {why}\n".encode())
    return code
