"""Workers that are processes, seen from the embedding program."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress

from acode.clock import ticks
from acode.embedded.frames import (
    Beat,
    Done,
    FromWorker,
    Interrupt,
    Kept,
    Messages,
    Returned,
    Revoke,
    Run,
    Step,
    Warned,
    from_worker,
    pack,
)
from acode.embedded.order import Order
from acode.embedded.worker import Desk
from acode.errors import AcodeError
from acode.model.ending import Exited
from acode.runner import calling

GRACE = 5.0
"""Seconds that an interrupted handler may take to end before its process is killed."""

OnDeath = Callable[["ProcessWorker"], None]


class ProcessWorker(asyncio.Protocol):
    """One handler process: the attempts it has, and the wire to it."""

    def __init__(self, worker_id: str, desk: Desk, on_death: OnDeath) -> None:
        self.id = worker_id
        self.leaving = False
        self.pid = 0
        self.started = 0.0
        self.heard = ticks()
        self.greeted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._desk = desk
        self._on_death = on_death
        self._loop = asyncio.get_running_loop()
        self._orders: dict[str, Order] = {}
        """What it has, in the order in which it runs them."""
        self._called_back: set[str] = set()
        self._stuck = False
        """The attempt that runs takes long; nothing should wait behind it."""
        self._messages: Messages[FromWorker] = Messages(from_worker)
        self._outbox: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._grace: asyncio.TimerHandle | None = None
        self._death = -1

    # Its life.

    def born(self, pid: int) -> None:
        """The process is there; its end will be noticed."""
        self.pid, self.started = pid, ticks()
        try:
            self._death = os.pidfd_open(pid)
        except ProcessLookupError:
            self._loop.call_soon(self._died)
            return
        self._loop.add_reader(self._death, self._died)

    def _died(self) -> None:
        self.forget()
        self._on_death(self)

    def forget(self) -> None:
        """It is dead, or will be in a moment: let go of everything about it."""
        if self._death >= 0:
            self._loop.remove_reader(self._death)
            os.close(self._death)
            self._death = -1
        if self._transport is not None:
            self._transport.abort()
        if self._grace is not None:
            self._grace.cancel()

    def kill(self) -> None:
        """End the process at once."""
        if self._death >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._death, signal.SIGKILL)

    def left(self) -> list[Order]:
        """What it had when it died; the first one was running."""
        orders, self._orders = list(self._orders.values()), {}
        return orders

    async def close(self) -> None:
        """Hang up; the process ends by itself."""
        self.leaving = True
        if self._transport is not None:
            self._transport.close()

    # Attempts.

    @property
    def current(self) -> Order | None:
        """The attempt that runs."""
        return next(iter(self._orders.values()), None)

    @property
    def load(self) -> int:
        """Attempts that it has."""
        return len(self._orders)

    def room(self, depth: int) -> int:
        """How many more it takes."""
        if self.leaving or self._called_back or self._grace is not None:
            return 0
        return (1 if self._stuck else depth) - len(self._orders)

    def begin(self, order: Order) -> None:
        """Send an attempt; it begins after those that are there."""
        self._orders[order.lease.token] = order
        self._post(pack(Run(order.call)))
        if len(self._orders) == 1:
            self._flush()  # the process waits for it
            self._desk.started(order)

    def _post(self, data: bytes) -> None:
        # Everything of one turn of the loop goes in one write.
        if not self._outbox:
            self._loop.call_soon(self._flush)
        self._outbox.append(data)

    def _flush(self) -> None:
        if self._transport is not None and self._outbox:
            self._transport.write(b"".join(self._outbox))
        self._outbox.clear()

    def interrupt(self, order: Order, *, force: bool) -> None:
        """End an attempt: ask its handler, then kill the process."""
        token = order.lease.token
        if token not in self._orders:
            return
        if order is not self.current:
            self.call_back([order])
            return
        self._post(pack(Interrupt(token)))
        if self._grace is not None:
            self._grace.cancel()
        self._grace = self._loop.call_later(0 if force else GRACE, self.kill)
        self.relieve()

    def relieve(self) -> None:
        """Give back what waits behind the attempt that runs."""
        self._stuck = True
        self.call_back(list(self._orders.values())[1:])

    def call_back(self, orders: list[Order]) -> None:
        """Ask for what has not begun."""
        tokens = {order.lease.token for order in orders} - self._called_back
        if tokens:
            self._called_back |= tokens
            self._post(pack(Revoke(tuple(tokens))))

    # Hearing.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The wire is up."""
        self._transport = transport  # type: ignore[assignment]  # a socket's transport

    def data_received(self, data: bytes) -> None:
        """Heed every complete message."""
        self.heard = ticks()
        for message in self._messages.feed(data):
            self._heed(message)

    def connection_lost(self, _error: Exception | None) -> None:
        """Its death, if it is one, is noticed elsewhere."""
        self._transport = None

    def _heed(self, message: FromWorker) -> None:
        match message:
            case Done():
                self._done(message)
            case Returned(tokens):
                self._returned(tokens)
            case Step(token, name, value):
                if order := self._orders.get(token):
                    self._desk.errand(self._keep(order, name, value))
            case Warned(token, text):
                if order := self._orders.get(token):
                    self._desk.warn(order.call, text)
            case Beat():
                if not self.greeted.done():
                    self.greeted.set_result(None)

    def _done(self, done: Done) -> None:
        order = self._orders.pop(done.token, None)
        self._called_back.discard(done.token)
        if order is None:
            return
        self._stuck = False
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
        if (following := self.current) is not None:
            self._desk.started(following)
            if following.why is not None:
                self.interrupt(following, force=False)
        order.over = True
        raised = done.raised
        if raised is None:
            self._desk.ended(order, Exited(0), seconds=done.seconds, value=done.value)
        elif order.why is not None:
            self._desk.ended(order, order.interrupted(), seconds=done.seconds)
        else:
            self._desk.ended(
                order,
                Exited(1),
                seconds=done.seconds,
                failure=raised.failure,
                cause=calling.unpacked(raised),
            )

    def _returned(self, tokens: tuple[str, ...]) -> None:
        self._called_back.clear()
        orders = [self._orders.pop(token) for token in tokens if token in self._orders]
        for order in orders:
            if order.why is not None:
                order.over = True
                self._desk.ended(order, order.interrupted(), seconds=0.0)
            order.began = 0.0
        if (first := self.current) is not None and not first.began:
            self._desk.started(first)
        self._desk.put_back([order for order in orders if not order.over])

    async def _keep(self, order: Order, name: str, value: object) -> None:
        refusal = None
        try:
            await self._desk.save_step(order.call, name, value)
        except AcodeError as error:
            refusal = str(error)
        self._post(pack(Kept(order.lease.token, refusal)))


def wires() -> tuple[socket.socket, socket.socket]:
    """Both ends of a wire: the program's, and the one that the worker gets."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    return ours, theirs
