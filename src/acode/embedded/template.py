"""The template: a copy of the embedding program with one thread, from which workers are forked.

It is made once, when the pool starts. Whatever the program does later with threads, a worker that
is started then, or started again, is a copy of this quiet process and not of the busy program.
"""

import gc
import os
import signal
import socket
import stat
import sys
import warnings
from contextlib import suppress
from functools import partial
from typing import NoReturn

import msgspec

from acode.embedded.begun import Begun
from acode.embedded.child import HandlerProcess
from acode.runner.handlers import registry
from acode.runner.tree import become_subreaper, kill_below
from acode.worker.loop import Loop

_SO_ACCEPTCONN = socket.SO_ACCEPTCONN


class Wanted(msgspec.Struct, frozen=True):
    """The program wants a worker; its wire comes along."""

    worker_id: str
    heartbeat_ms: int
    begun: str | None
    """The file in which it notes what it begins."""
    place: int


class Born(msgspec.Struct, frozen=True, tag="born"):
    """A worker is there; 0 if it could not be forked."""

    worker_id: str
    pid: int
    error: str = ""


class Gone(msgspec.Struct, frozen=True, tag="gone"):
    """A worker has ended; a negative code is a signal."""

    pid: int
    code: int


# Made before there is a template, as those of the frames are.
_wanted = msgspec.json.Decoder(Wanted)
_told: msgspec.json.Decoder[Born | Gone] = msgspec.json.Decoder(Born | Gone)
_encode = msgspec.json.Encoder().encode


class Template:
    """Forks on order, buries, and ends with the program."""

    def __init__(self, wire: socket.socket, program: int) -> None:
        self._wire = wire
        self._program = program
        self._loop = Loop()
        self._workers: set[int] = set()

    def run(self) -> NoReturn:
        """Serve until the program closes the wire or is gone."""
        self._loop.watch(self._wire.fileno(), self._receive)
        self._loop.watch(self._program, self._leave)
        self._loop.on_signal(signal.SIGCHLD, self._reap)
        while True:
            self._loop.run_once(None)

    def _receive(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._wire, 8192, 1)
        except OSError:
            data, descriptors = b"", []
        if not data:
            self._leave()
        self._fork(_wanted.decode(data), socket.socket(fileno=descriptors[0]))

    def _fork(self, wanted: Wanted, wire: socket.socket) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            self._tell(Born(wanted.worker_id, 0, str(error)))
            wire.close()
            return
        if pid == 0:
            self._become_worker(wanted, wire)
        wire.close()
        self._workers.add(pid)
        self._tell(Born(wanted.worker_id, pid))

    def _become_worker(self, wanted: Wanted, wire: socket.socket) -> NoReturn:
        try:
            os.setsid()
            self._loop.close()
            self._wire.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            gc.enable()
            note = partial(Begun(wanted.begun).note, wanted.place) if wanted.begun else None
            HandlerProcess(wire, self._program, wanted.heartbeat_ms, note).run()
        except BaseException as error:
            os.write(2, f"acode worker: {type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(1)

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid in self._workers:
                    self._workers.discard(pid)
                    self._tell(Gone(pid, os.waitstatus_to_exitcode(status)))
                    # Orphans of a worker that was killed are our children now.
                    kill_below(os.getpid(), spare=self._workers)

    def _tell(self, message: Born | Gone) -> None:
        with suppress(OSError):
            self._wire.send(_encode(message))

    def _leave(self) -> NoReturn:
        kill_below(os.getpid())
        os._exit(0)


def asked(wanted: Wanted) -> bytes:
    """What is sent to the template, with a wire beside it."""
    return _encode(wanted)


def told(data: bytes) -> Born | Gone:
    """What the template answers."""
    return _told.decode(data)


def fork_template() -> tuple[int, socket.socket]:
    """Make the template of this program; its process id and the wire to it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    program = os.pidfd_open(os.getpid())
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # The child of a program with threads uses nothing that they might hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _become_template(ours, theirs, program)
    theirs.close()
    os.close(program)
    return pid, ours


def _become_template(ours: socket.socket, theirs: socket.socket, program: int) -> NoReturn:
    try:
        signal.set_wakeup_fd(-1)
        ours.close()
        _let_go_of_ports()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # Not ignored: what handlers start would inherit that. The program tells us to end.
            signal.signal(number, _do_nothing)
        become_subreaper()
        for handler in registry:
            handler.prepare()  # what each worker did by itself would be memory of its own
        gc.freeze()
        gc.disable()
        Template(theirs, program).run()
    except BaseException as error:
        os.write(2, f"acode template: {type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(1)


def _do_nothing(_number: int, _frame: object) -> None:
    """The program decides when we end."""


def _let_go_of_ports() -> None:
    """A port on which the program listens must be free when the program is gone.

    The numbers stay taken: objects of the program still know them, and close them some day.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if _listens(int(name)):
                os.dup2(nothing, int(name), inheritable=False)
    os.close(nothing)


def _listens(descriptor: int) -> bool:
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        return False
    copy = socket.socket(fileno=os.dup(descriptor))
    try:
        return bool(copy.getsockopt(socket.SOL_SOCKET, _SO_ACCEPTCONN))
    finally:
        copy.close()
