"""The bell: wakes whoever rests. Doors ring it over a datagram socket; a lost ring costs a poll."""

import asyncio
import os
import socket

from acode.sockets import short_path


class Bell:
    """Rung by anybody, heard by one."""

    def __init__(self) -> None:
        self._rung = False
        self._sleeper: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """Wake the sleeper, or keep it from falling asleep."""
        self._rung = True
        self._wake()

    async def wait(self, seconds: float) -> None:
        """Rest, but not longer than until the bell rings."""
        if not self._rung:
            # asyncio.wait_for would do, but takes a task and three more turns of the loop.
            loop = asyncio.get_running_loop()
            self._sleeper = loop.create_future()
            alarm = loop.call_later(seconds, self._wake)
            try:
                await self._sleeper
            finally:
                alarm.cancel()
                self._sleeper = None
        self._rung = False

    def _wake(self) -> None:
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)


class BellSocket:
    """The end of the bell wire that other processes pull."""

    def __init__(self, path: str, bell: Bell) -> None:
        self._path = path
        self._bell = bell
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        if os.path.lexists(path):
            os.unlink(path)
        with short_path(path) as short:
            self._socket.bind(short)
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._read)

    def _read(self) -> None:
        try:
            while True:
                self._socket.recv(16)
                self._bell.ring()
        except BlockingIOError:
            return

    def close(self) -> None:
        """Listen no more."""
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        self._socket.close()
        if os.path.lexists(self._path):
            os.unlink(self._path)
