"""The bell: wakes whoever rests. Doors ring it over a datagram socket; a lost ring costs a poll."""

import asyncio
import os
import socket

from acode.sockets import short_path


class Bell:
    """Rung by anybody, heard by one."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Wake the sleeper, or keep it from falling asleep."""
        self._rung.set()

    async def wait(self, seconds: float) -> None:
        """Rest, but not longer than until the bell rings."""
        try:
            await asyncio.wait_for(self._rung.wait(), seconds)
        except TimeoutError:
            return
        finally:
            self._rung.clear()


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
