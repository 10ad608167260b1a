"""A local process in the place of a command that the engine starts in a container without a shell.

An exec cannot be ended through the engine, and its output may stay open when it is over. So the
keeper inside ends it, and the engine is asked again and again whether it still runs.
"""

import os
import select
import signal
import socket
from contextlib import suppress

from acode.clock import Deadline, ticks
from acode.runner.container import execs
from acode.runner.container.api import Api, EngineError
from acode.runner.container.channel import Gone, Silent
from acode.runner.container.keeper import Keeper
from acode.runner.container.notes import Notes
from acode.runner.container.order import Command
from acode.runner.container.seat import Seat
from acode.runner.container.stats import Counts, counts_of, first_pid
from acode.runner.container.told import Listening, Told, kill_container

STRAY_GRACE_SECONDS = 0.5
DRAIN_SECONDS = 5.0
"""How long the engine may take to pass on what was printed before the end."""
FIRST_LOOK_SECONDS = 0.02
LONGEST_LOOK_SECONDS = 2.0
OUTPUT_BYTES = 1 << 16
FIRST_WORDS_BYTES = 4096
"""As much as the engine says when it cannot start a command."""


class Execution:
    """One command, seen from outside."""

    def __init__(self, seat: Seat, stdout: int, stderr: int) -> None:
        self._seat = seat
        self._outputs = (stdout, stderr)
        self._api = Api(seat.engine)
        self._notes = Notes()
        self._frames = execs.Frames()
        self._listening = Listening()
        self._first_words = b""

    def run(self, command: Command) -> tuple[int, Told]:
        """From its start to its end; the exit code and what else is known."""
        try:
            with Keeper(self._seat) as keeper:
                return self._run(command, keeper)
        except (Silent, Gone, OSError) as error:
            why = f"its container does not answer ({type(error).__name__})"
        except EngineError as error:
            why = f"its container takes no command: {error}"
        kill_container(self._seat)
        return 1, Told(unstarted=why, broken=True)

    def _run(self, command: Command, keeper: Keeper) -> tuple[int, Told]:
        pid = first_pid(self._api, self._seat.container_id)
        before = counts_of(pid)
        started = execs.start(self._api, self._seat.container_id, command)
        try:
            with started.stream as stream:
                state = self._until_end(started.id, stream, keeper)
                self._listening.note(strays=keeper.end_strays(STRAY_GRACE_SECONDS))
                self._drain(stream)
        except Silent:
            kill_container(self._seat)
            self._listening.note(broken=True)
            return 137, self._listening.told
        except Gone:
            self._listening.bury(self._seat)
            return 1, self._listening.told
        self._count(before, counts_of(pid))
        if (words := execs.refusal(state, self._first_words)) is not None:
            self._listening.note(**{"nowhere" if "cwd" in words else "absent": True})
        return state.exit_code or 0, self._listening.told

    def _count(self, before: Counts, after: Counts) -> None:
        self._listening.note(
            oom=after.oom_kills > before.oom_kills,
            cpu_seconds=round((after.cpu_nanoseconds - before.cpu_nanoseconds) / 1e9, 6),
            max_memory_bytes=after.peak_bytes if after.peak_bytes > before.peak_bytes else 0,
        )

    def _until_end(self, exec_id: str, stream: socket.socket, keeper: Keeper) -> execs.State:
        poll = select.poll()
        for descriptor in (stream.fileno(), self._notes.descriptor):
            poll.register(descriptor, select.POLLIN)
        poll.register(keeper.orders, 0)  # only whether anybody is left at its other end
        rest, look_at = FIRST_LOOK_SECONDS, ticks() + FIRST_LOOK_SECONDS
        while True:
            ready = dict(poll.poll(max(0.0, look_at - ticks()) * 1000))
            if keeper.orders in ready:
                raise Gone
            if self._notes.asks_to_end():
                self._ask_to_end(keeper)
            if stream.fileno() in ready and not self._pass_on(stream):
                poll.unregister(stream)
                rest, look_at = FIRST_LOOK_SECONDS, ticks()
            if ticks() >= look_at:
                if (state := self._look(exec_id)) is not None:
                    return state
                rest = min(rest * 1.5, LONGEST_LOOK_SECONDS)
                look_at = ticks() + rest

    def _look(self, exec_id: str) -> execs.State | None:
        """How it ended, if it has and the engine can tell."""
        try:
            state = execs.look(self._api, exec_id)
        except EngineError as error:
            if error.status == 404:  # an engine that was restarted knows nothing of it
                raise Gone from None
            return None  # it may come back
        return None if state.running else state

    @staticmethod
    def _ask_to_end(keeper: Keeper) -> None:
        keeper.signal(signal.SIGTERM)
        keeper.signal(signal.SIGCONT)

    def _pass_on(self, stream: socket.socket) -> bool:
        """Move what was printed; whether there may be more."""
        try:
            data = stream.recv(OUTPUT_BYTES)
        except OSError:
            return False
        for is_error, piece in self._frames.feed(data):
            missing = FIRST_WORDS_BYTES - len(self._first_words)
            self._first_words += piece[:missing]
            # A slow reader slows the command down, as it would anywhere.
            _write(self._outputs[is_error], piece)
        return bool(data)

    def _drain(self, stream: socket.socket) -> None:
        """Everybody is gone: what is still to come ends by itself, unless the engine hangs."""
        deadline = Deadline(DRAIN_SECONDS)
        with suppress(OSError):
            while deadline.left() > 0:
                stream.settimeout(deadline.left())
                if not self._pass_on(stream):
                    return


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
