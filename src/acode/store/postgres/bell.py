"""The bell between machines: LISTEN on a connection of its own, heard by the event loop."""

import asyncio
import os
from collections.abc import Callable

import psycopg
from psycopg import Connection

from acode.clock import RemoteClock
from acode.errors import AcodeError
from acode.store.postgres.address import Address
from acode.store.postgres.connection import connect, translated
from acode.store.postgres.transaction import statement

FIRST_REST_SECONDS, LONGEST_REST_SECONDS = 0.1, 2.0


class Listener:
    """Listens until it is stopped, and again whenever the line broke."""

    def __init__(self, address: Address, own_name: str, ring: Callable[[], None]) -> None:
        self._address = address
        self._own_name = own_name
        self._ring = ring
        self._connection: Connection | None = None
        self._broken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin; returns when the bell can be heard, or cannot for the time being."""
        self._loop = asyncio.get_running_loop()
        heard = asyncio.Event()
        self._task = asyncio.create_task(self._run(heard))
        await heard.wait()

    def stop(self) -> None:
        """Listen no more."""
        if self._task is not None:
            self._task.cancel()
        self._hang_up()

    async def _run(self, heard: asyncio.Event) -> None:
        rest = FIRST_REST_SECONDS
        while True:
            try:
                await self._connect()
            except AcodeError:
                rest = min(LONGEST_REST_SECONDS, rest * 2)
            else:
                rest = FIRST_REST_SECONDS
                if heard.is_set():
                    self._ring()  # nobody knows what we have not heard
                heard.set()
                await self._broken.wait()
            heard.set()
            await asyncio.sleep(rest)

    async def _connect(self) -> None:
        self._connection = await asyncio.to_thread(self._line)
        self._broken.clear()
        # A number of our own: the library closes its one when the line breaks, without a word.
        self._watched = os.dup(self._connection.fileno())
        self._loop.add_reader(self._watched, self._read, self._connection)

    def _line(self) -> Connection:
        connection = connect(self._address, RemoteClock()).connection
        with translated(self._address):
            connection.execute(statement("listen").encode())
        return connection

    def _read(self, connection: Connection) -> None:
        try:
            connection.pgconn.consume_input()
            while (note := connection.pgconn.notifies()) is not None:
                if note.extra.decode() != self._own_name:
                    self._ring()
        except psycopg.Error:
            self._hang_up()
            self._broken.set()

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._loop.remove_reader(self._watched)
            os.close(self._watched)
            self._connection.close()
            self._connection = None
