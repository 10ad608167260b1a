"""The daemon's side of the zygote: starts it, orders forks, hears of exits."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping

import msgspec

from acode.clock import Clock
from acode.engine.link import Link
from acode.errors import WorkerStartFailed
from acode.ids import new_id
from acode.worker.config import WorkerConfig
from acode.worker.messages import Action, Control, Exited, Forked
from acode.worker.wire import Frame, FrameType, unpack

FORK_SECONDS = 10.0


class ZygoteHandle:
    """One zygote at a time; when it dies, the next order starts another."""

    def __init__(
        self, clock: Clock, environ: Mapping[str, str], on_exit: Callable[[Exited], None]
    ) -> None:
        self._clock = clock
        self._environ = environ
        self._on_exit = on_exit
        self._link: Link | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._orders: dict[str, asyncio.Future[Forked]] = {}
        self._starting = asyncio.Lock()

    async def fork(self, config: WorkerConfig) -> Forked:
        """A new worker process, listening at its socket."""
        async with self._starting:
            link = self._link or await self._start()
        order = new_id(self._clock.now())
        answer: asyncio.Future[Forked] = asyncio.get_running_loop().create_future()
        self._orders[order] = answer
        try:
            control = Control(action=Action.FORK, data=msgspec.to_builtins(config))
            link.send(FrameType.CONTROL, order, control)
            return await asyncio.wait_for(answer, FORK_SECONDS)
        except TimeoutError as error:
            raise WorkerStartFailed("the zygote does not answer") from error
        finally:
            self._orders.pop(order, None)

    async def _start(self) -> Link:
        ours, theirs = socket.socketpair()
        self._reap()
        with theirs:
            # -P: a module in the working directory must never be taken for one of ours.
            self._process = subprocess.Popen(  # noqa: ASYNC220, S603 -- a few ms, our own program
                [sys.executable, "-P", "-m", "acode.worker.zygote", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=dict(self._environ),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        ours.setblocking(False)
        loop = asyncio.get_running_loop()
        _, self._link = await loop.create_unix_connection(
            lambda: Link(self._clock, self._on_frame, self._on_close), sock=ours
        )
        return self._link

    def _on_frame(self, frame: Frame) -> None:
        if frame.type is FrameType.RESULT:
            answer = self._orders.get(frame.id)
            if answer is not None and not answer.done():
                answer.set_result(unpack(frame, Forked))
        else:
            self._on_exit(unpack(frame, Exited))

    def _on_close(self) -> None:
        self._link = None
        self._reap()
        for answer in self._orders.values():
            if not answer.done():
                answer.set_exception(WorkerStartFailed("the zygote has died"))

    def _reap(self) -> None:
        if self._process is not None:
            self._process.poll()

    @property
    def pid(self) -> int | None:
        """The zygote's process, while there is one."""
        return self._process.pid if self._process and self._link else None

    async def close(self) -> None:
        """End the zygote; its workers, if any, go on."""
        if self._link is not None:
            self._link.close()
        if self._process is not None:
            await asyncio.to_thread(self._process.wait)


def open_pidfd(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends; None if it has."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None
