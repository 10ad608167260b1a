"""A handler process: its main thread runs handlers, and listens while it has nothing to run.

Another thread listens and shows signs of life while a handler takes long. To hand every short
attempt from one thread to the other would take longer than many of them.
"""

import asyncio
import os
import select
import signal
import socket
from _thread import allocate_lock, get_ident, start_new_thread
from collections import deque
from collections.abc import Callable
from typing import Any

from acode.clock import SystemClock, ticks
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
    ToWorker,
    Warned,
    pack,
    to_worker,
)
from acode.embedded.nudge import Nudge
from acode.errors import LeaseLost
from acode.runner import calling
from acode.runner.context import Call, Context, Stopped, SyncContext
from acode.runner.handlers import Handler

_INTERRUPT = signal.SIGUSR1
_CHUNK = 1 << 16
_SHORT_SECONDS = 0.01
"""While an attempt takes less than this, nobody need listen."""


class HandlerProcess:
    """Runs what it is sent, one attempt after the other."""

    def __init__(
        self,
        wire: socket.socket,
        program: int,
        heartbeat_ms: int,
        note: Callable[[str], None] | None,
    ) -> None:
        self._wire = wire
        self._note = note
        """Told of the token of every attempt before it begins."""
        self._program = program
        """A descriptor that tells of the embedding program's end."""
        self._heartbeat_ms = heartbeat_ms
        self._clock = SystemClock()
        self._calls: deque[Call] = deque()
        self._messages: Messages[ToWorker] = Messages(to_worker)
        self._reading = allocate_lock()
        """Whoever has it listens."""
        self._heard = Nudge()
        """The other thread has heard something, or listens no more."""
        self._begun = Nudge()
        """Wakes the other thread to look after the attempts that begin from now on."""
        self._watched = False
        """It is awake."""
        self._hurry = Nudge()
        """It should listen at once: the handler waits for an answer."""
        self._lock = allocate_lock()
        self._sending = allocate_lock()
        self._keeping = allocate_lock()
        self._current: Call | None = None
        self._stopped = False
        self._interruptible = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._kept: asyncio.Future[Kept] | None = None
        self._answers: deque[Kept] = deque()
        self._poll = select.poll()
        for descriptor in (wire.fileno(), program):
            self._poll.register(descriptor, select.POLLIN)
        self._last_beat = 0.0

    def run(self) -> None:
        """Live."""
        signal.signal(_INTERRUPT, self._on_interrupt)
        self._main = get_ident()
        self._beat()
        # Bare, as its locks are: it begins before there is anything to run, and ends with us.
        start_new_thread(self._listen, ())
        while True:
            call = self._next()
            if call is None:
                self._wait()
                continue
            self._send(self._attempt(call))

    def _be_watched(self) -> None:
        if not self._watched:
            self._watched = True
            self._begun.give()

    def _next(self) -> Call | None:
        """The next attempt, unless it was called back meanwhile."""
        with self._lock:
            self._current = self._calls.popleft() if self._calls else None
            self._stopped = False
            # An answer that an interrupted attempt did not wait for is none for the next one.
            self._answers.clear()
            return self._current

    def _send(self, message: FromWorker) -> None:
        with self._sending:
            self._wire.sendall(pack(message))

    # The main thread.

    def _attempt(self, call: Call) -> Done:
        if self._note is not None:
            self._note(call.token)
        self._be_watched()  # not earlier: the other thread goes on when this one calls the kernel
        began = ticks()
        context: Context | SyncContext | None = None
        try:
            handler = calling.found(call)
            if handler.is_async:
                context = Context(call, _AsyncKeeper(self))
                value = self._run_async(handler, call, context)
            else:
                context = SyncContext(call, _SyncKeeper(self), lambda: self._stopped)
                value = self._run_sync(handler, call, context)
        except BaseException as error:  # whatever a handler raises, the process goes on
            failure = calling.failure_of(error, context, self._clock.now())
            raised = calling.packed(error, failure)
            return Done(call.token, ticks() - began, raised=raised)
        finally:
            with self._lock:
                self._current = None
        return Done(call.token, ticks() - began, value)

    def _run_sync(self, handler: Handler, call: Call, context: SyncContext) -> Any:
        self._interruptible = True
        try:
            if self._stopped:
                raise Stopped
            return calling.run_plainly(handler, call, context)
        finally:
            self._interruptible = False

    def _run_async(self, handler: Handler, call: Call, context: Context) -> Any:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        self._task = self._loop.create_task(calling.run(handler, call, context))
        if self._stopped:
            self._task.cancel()
        try:
            return self._loop.run_until_complete(self._task)
        finally:
            self._task = None

    def _on_interrupt(self, _number: int, _frame: object) -> None:
        if self._interruptible and self._stopped:
            self._interruptible = False
            raise Stopped

    # Listening.

    def _wait(self) -> None:
        """Listen until something is heard, or let the other thread do so if it does already."""
        if self._reading.acquire(blocking=False):
            try:
                self._read()
            finally:
                self._reading.release()
        else:
            self._heard.wait()

    def _read(self) -> None:
        """Heed what comes next, and show a sign of life when it is time for one."""
        for descriptor, _ in self._poll.poll(self._heartbeat_ms):
            data = b"" if descriptor == self._program else self._wire.recv(_CHUNK)
            if not data:
                os._exit(0)  # the program is gone or wants no more of us
            for message in self._messages.feed(data):
                self._heed(message)
        if (ticks() - self._last_beat) * 1000 >= self._heartbeat_ms:
            self._beat()

    def _beat(self) -> None:
        self._last_beat = ticks()
        self._send(Beat(os.getpid()))

    def _listen(self) -> None:
        """The other thread: look after attempts that take long."""
        while True:
            self._begun.wait()
            self._look_after_attempts()

    def _look_after_attempts(self) -> None:
        while True:
            call = self._current
            self._hurry.wait(_SHORT_SECONDS)
            if call is None or self._current is not call:
                # Noted before it is looked at: an attempt that begins now is not overlooked.
                self._watched = False
                if self._current is None:
                    return
                self._watched = True
                continue
            with self._reading:
                while self._current is call:
                    self._read()
                    self._heard.give()
            self._hurry.forget()
            self._heard.give()  # the main thread may listen again

    def _heed(self, message: ToWorker) -> None:
        match message:
            case Run(call):
                with self._lock:
                    self._calls.append(call)
            case Revoke(tokens):
                self._give_back(tokens)
            case Interrupt(token):
                self._interrupt(token)
            case Kept():
                self._answer(message)

    def _give_back(self, tokens: tuple[str, ...]) -> None:
        with self._lock:
            given = [call for call in self._calls if call.token in tokens]
            for call in given:
                self._calls.remove(call)
        self._send(Returned(tuple(call.token for call in given)))

    def _interrupt(self, token: str) -> None:
        with self._lock:
            if self._current is None or self._current.token != token:
                return
            self._stopped = True
        if self._task is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)
        else:
            signal.pthread_kill(self._main, _INTERRUPT)

    def _answer(self, kept: Kept) -> None:
        if self._current is None or self._current.token != kept.token:
            return
        if self._kept is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(_resolve, self._kept, kept)
        else:
            self._answers.append(kept)

    # Steps.

    async def keep(self, call: Call, step: str, value: Any) -> None:
        """Send a step to the program and wait until it is durable."""
        self._kept = asyncio.get_running_loop().create_future()
        self._hurry.give()
        try:
            self._send(Step(call.token, step, value))
            _raise_refusal(await self._kept)
        finally:
            self._kept = None

    def keep_sync(self, call: Call, step: str, value: Any) -> None:
        """The same for a plain function, one step at a time even if it has threads of its own."""
        self._interruptible = False  # in the middle of a message
        with self._keeping:
            self._send(Step(call.token, step, value))
            while not self._answers and not self._stopped:
                self._wait()
            kept = None if self._stopped else self._answers.popleft()
        self._interruptible = True
        if kept is None:
            raise Stopped
        _raise_refusal(kept)

    def warn(self, call: Call, message: str) -> None:
        """Pass a warning on."""
        self._send(Warned(call.token, message))


class _AsyncKeeper:
    """Keeps the steps of an async handler."""

    def __init__(self, process: HandlerProcess) -> None:
        self._process = process
        self._turn = asyncio.Lock()

    async def save_step(self, call: Call, step: str, value: Any) -> None:
        """One step at a time, even if the handler has several under way."""
        async with self._turn:
            await self._process.keep(call, step, value)

    def warn(self, call: Call, message: str) -> None:
        """Pass a warning on."""
        self._process.warn(call, message)


class _SyncKeeper:
    """Keeps the steps of a handler that is a plain function."""

    def __init__(self, process: HandlerProcess) -> None:
        self._process = process

    def save_step(self, call: Call, step: str, value: Any) -> None:
        """Wait until the step is kept."""
        self._process.keep_sync(call, step, value)

    def warn(self, call: Call, message: str) -> None:
        """Pass a warning on."""
        self._process.warn(call, message)


def _resolve(future: "asyncio.Future[Kept]", kept: Kept) -> None:
    if not future.done():
        future.set_result(kept)


def _raise_refusal(kept: Kept) -> None:
    if kept.refusal is not None:
        raise LeaseLost(kept.refusal)
