"""The zygote: loads the worker's code once and forks a worker in milliseconds.

It is the parent and subreaper of all workers: it reports their exits to the daemon, and it ends
whatever a killed worker leaves behind. It ends with the daemon; its workers do not.
"""

import gc
import os
import signal
import socket
import sys

import msgspec

from acode.clock import SystemClock
from acode.runner.identity import identify
from acode.runner.tree import become_subreaper, kill_below
from acode.sockets import listen
from acode.worker import birth
from acode.worker.config import WorkerConfig
from acode.worker.loop import Loop
from acode.worker.messages import Control, Exited, Forked
from acode.worker.wire import BrokenFrame, Frame, FrameReader, FrameType, pack, unpack


class Zygote:
    """Forks on order."""

    def __init__(self, daemon: socket.socket) -> None:
        self._daemon = daemon
        self._reader = FrameReader()
        self._loop = Loop()
        self._workers: dict[int, str] = {}
        self._clock = SystemClock()
        self._open = True

    def run(self) -> None:
        """Serve until the daemon closes the connection."""
        self._loop.watch(self._daemon.fileno(), self._receive)
        self._loop.on_signal(signal.SIGCHLD, self._reap)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while self._open:
            self._loop.run_once(None)

    def _receive(self) -> None:
        try:
            data = self._daemon.recv(1 << 16)
            frames = list(self._reader.feed(data))
        except (OSError, BrokenFrame):
            data = b""
        if not data:
            self._open = False
            return
        for frame in frames:
            self._fork(frame)

    def _fork(self, frame: Frame) -> None:
        config = msgspec.convert(unpack(frame, Control).data, WorkerConfig)
        try:
            listener = listen(f"{config.run_dir}/workers/{config.id}.sock")
        except OSError as error:
            self._answer(frame.id, Forked(config.id, None, str(error)))
            return
        try:
            pid = self._bear(config, listener)
        except OSError as error:
            self._answer(frame.id, Forked(config.id, None, str(error)))
            return
        finally:
            listener.close()
        self._workers[pid] = config.id
        process = identify(pid)
        with open(f"{config.run_dir}/workers/{config.id}.json", "wb") as file:
            file.write(msgspec.json.encode(process))
        self._answer(frame.id, Forked(config.id, process))

    def _bear(self, config: WorkerConfig, listener: socket.socket) -> int:
        """A worker's process: forked, or a program of its own where the system refuses that."""
        zygote = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            return birth.start(config, listener)
        if pid == 0:
            birth.be_worker(config, listener, zygote, self._leave)
        return pid

    def _leave(self) -> None:
        """Be the zygote no longer: runs in a child."""
        os.setsid()
        self._daemon.close()
        self._loop.close()

    def _reap(self) -> None:
        if self._has_lost_worker():
            # Orphans of a worker that was killed are our children now.
            kill_below(os.getpid(), spare=self._workers)

    def _has_lost_worker(self) -> bool:
        """Take notice of everybody who has ended; whether a worker was among them."""
        lost = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            worker_id = self._workers.pop(pid, None)
            if worker_id is not None:
                lost = True
                code = os.waitstatus_to_exitcode(status)
                self._answer(worker_id, Exited(worker_id, pid, code))
        return lost

    def _answer(self, id_: str, payload: Forked | Exited) -> None:
        kind = FrameType.RESULT if isinstance(payload, Forked) else FrameType.LOG
        try:
            self._daemon.sendall(pack(kind, id_, self._clock.now(), payload))
        except OSError:
            self._open = False


def main(descriptor: int) -> None:
    """Be the zygote of the daemon at the other end of this socket."""
    become_subreaper()
    # What is alive now is never looked at again, so forked workers share its pages.
    gc.collect()
    gc.freeze()
    gc.disable()
    daemon = socket.socket(fileno=descriptor)
    daemon.set_inheritable(False)
    Zygote(daemon).run()


if __name__ == "__main__":
    main(int(sys.argv[1]))
