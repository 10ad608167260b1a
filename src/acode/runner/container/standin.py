"""A local process in the place of a command that runs in a container.

It starts the command, passes its output and our signals on, and ends when the command and all
that it started have ended, with the same exit code. So a container's command is treated like any
other. If the stand-in is killed, its pipe closes, and the supervisor kills everything inside.
"""

import os
import select
import signal
from contextlib import suppress
from typing import NoReturn

import msgspec

from acode.runner.container.channel import Channel, Gone, Silent
from acode.runner.container.notes import Notes
from acode.runner.container.order import Command, order_of
from acode.runner.container.seat import Seat, leave_order
from acode.runner.container.told import Listening, Told, kill_container
from acode.runner.tree import die_with_parent

GREET_SECONDS = 10.0
"""More than a supervisor takes to clear up after the attempt before."""
CLEAR_SECONDS = 5.0
"""What cannot be killed by then is killed with its container."""
OUTPUT_BYTES = 1 << 16
PATIENCE_MS = 100
"""How long a full pipe may keep us from everything else."""


def fork_stand_in(seat: Seat, command: Command, stdout: int, stderr: int, report: int) -> int:
    """Start one; its pid. What it knows comes through `report` before it ends."""
    everything = signal.valid_signals()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, everything)
    try:
        pid = os.fork()
        if pid == 0:
            _be_stand_in(seat, command, stdout, stderr, report)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def _be_stand_in(seat: Seat, command: Command, stdout: int, stderr: int, report: int) -> NoReturn:
    """Runs in the child, signals still blocked: none may reach the parent's pipe through us."""
    code = 1
    try:
        die_with_parent(signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        os.setsid()
        _forget_descriptors({0, 1, 2, stdout, stderr, report})
        code, told = _stand_in(seat, command, stdout, stderr)
        os.write(report, msgspec.msgpack.encode(told))
    except BaseException as error:  # the child must not fall back into the parent
        with suppress(OSError):
            told = Told(lost=f"{type(error).__name__}: {error}", broken=True)
            os.write(report, msgspec.msgpack.encode(told))
    finally:
        os._exit(code)


def _stand_in(seat: Seat, command: Command, stdout: int, stderr: int) -> tuple[int, Told]:
    if not seat.has_shell:
        from acode.runner.container.execution import Execution  # rarely needed, and large

        return Execution(seat, stdout, stderr).run(command)
    with seat.outputs() as (out, err):
        return StandIn(seat, {out: stdout, err: stderr}).run(order_of(command))


def _forget_descriptors(kept: set[int]) -> None:
    """What our parent has open is its own; a socket that we kept would never seem closed."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            with suppress(OSError):  # the one that read the list
                os.close(int(name))


class StandIn:
    """One command in a container, seen from outside."""

    def __init__(self, seat: Seat, outputs: dict[int, int]) -> None:
        self._seat = seat
        self._outputs = outputs
        self._notes = Notes()
        self._listening = Listening()
        self._is_to_end = False

    def run(self, order: str) -> tuple[int, Told]:
        """From the order to the end; the exit code and what else is known."""
        try:
            leave_order(self._seat, order)
            channel = Channel(self._seat, GREET_SECONDS, "run")
        except (Silent, Gone, OSError) as error:
            why = f"its container does not answer ({type(error).__name__})"
            kill_container(self._seat)
            return 1, Told(unstarted=why, broken=True)
        with channel:
            try:
                code = self._until_end(channel)
                self._listening.note(strays=channel.quit(CLEAR_SECONDS))
            except Silent:
                kill_container(self._seat)
                self._listening.note(broken=True)
                code = 137
            except (Gone, BrokenPipeError):
                self._listening.bury(self._seat)
                return 1, self._listening.told
        while self._pass_on():
            pass
        with suppress(OSError):
            os.unlink(self._seat.path("order"))
        return code, self._listening.told

    def _until_end(self, channel: Channel) -> int:
        poll = select.poll()
        for descriptor in (channel.reply, self._notes.descriptor, *self._outputs):
            poll.register(descriptor, select.POLLIN)
        is_gone = False
        while True:
            # Answers may have come with the greeting already.
            while words := channel.next():
                if (status := self._listening.heed(words)) is not None:
                    return status
            if is_gone:
                raise Gone
            self._obey(channel)
            ready = dict(poll.poll())
            self._pass_on()
            is_gone = bool(ready.get(channel.reply, 0) & select.POLLHUP)

    def _obey(self, channel: Channel) -> None:
        """Pass on that the command is to end."""
        self._is_to_end |= self._notes.asks_to_end()
        if self._is_to_end and self._listening.has_begun:
            self._is_to_end = False
            channel.say("term")

    def _pass_on(self) -> bool:
        """Move what was printed; says whether there may be more."""
        moved = [self._splice(*pair) for pair in self._outputs.items()]
        return any(moved)

    def _splice(self, source: int, target: int) -> bool:
        try:
            return os.splice(source, target, OUTPUT_BYTES) > 0
        except BlockingIOError:  # there is nothing, or no room for it
            if not _is_ready(source, select.POLLIN, 0):
                return False
        # A slow reader slows the command down, as it would anywhere.
        _is_ready(target, select.POLLOUT, PATIENCE_MS)
        return True


def _is_ready(descriptor: int, event: int, wait_ms: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(wait_ms))


def quiesce(seat: Seat) -> bool:
    """Nothing runs in the container when this returns; says whether it can be used again."""
    try:
        _clear(seat)
    except (Silent, Gone, OSError):
        kill_container(seat)
        return False
    return True


def _clear(seat: Seat) -> None:
    if not seat.has_shell:
        from acode.runner.container.keeper import Keeper

        Keeper(seat).close()  # whoever comes to it finds nobody
        return
    with Channel(seat, CLEAR_SECONDS) as channel:
        channel.quit(CLEAR_SECONDS)
