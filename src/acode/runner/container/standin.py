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
from acode.runner.container.seat import Seat, leave_order
from acode.runner.tree import die_with_parent

GREET_SECONDS = 10.0
"""More than a supervisor takes to clear up after the attempt before."""
CLEAR_SECONDS = 5.0
"""What cannot be killed by then is killed with its container."""
KILL_SECONDS = 10.0
OUTPUT_BYTES = 1 << 16
PATIENCE_MS = 100
"""How long a full pipe may keep us from everything else."""


class Told(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a stand-in knows beyond its exit code."""

    unstarted: str | None = None
    """Why the command never ran."""
    lost: str | None = None
    """Why nobody knows how it ended."""
    absent: bool = False
    """The image has no such program."""
    nowhere: bool = False
    """The image has no such directory."""
    oom: bool = False
    strays: bool = False
    broken: bool = False
    """The container is of no more use."""
    cpu_seconds: float = 0.0
    max_memory_bytes: int = 0


def fork_stand_in(seat: Seat, order: str, stdout: int, stderr: int, report: int) -> int:
    """Start one; its pid. What it knows comes through `report` before it ends."""
    everything = signal.valid_signals()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, everything)
    try:
        pid = os.fork()
        if pid == 0:
            _be_stand_in(seat, order, stdout, stderr, report)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def _be_stand_in(seat: Seat, order: str, stdout: int, stderr: int, report: int) -> NoReturn:
    """Runs in the child, signals still blocked: none may reach the parent's pipe through us."""
    code = 1
    try:
        die_with_parent(signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        os.setsid()
        _forget_descriptors({0, 1, 2, stdout, stderr, report})
        with seat.outputs() as (out, err):
            code, told = StandIn(seat, {out: stdout, err: stderr}).run(order)
        os.write(report, msgspec.msgpack.encode(told))
    except BaseException as error:  # the child must not fall back into the parent
        with suppress(OSError):
            told = Told(lost=f"{type(error).__name__}: {error}", broken=True)
            os.write(report, msgspec.msgpack.encode(told))
    finally:
        os._exit(code)


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
        self._notes, notes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCONT):
            signal.signal(number, lambda _number, _frame: None)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.set_wakeup_fd(notes, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        self._told = Told()
        self._has_begun = False
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
                self._tell(strays=channel.quit(CLEAR_SECONDS))
            except Silent:
                kill_container(self._seat)
                self._tell(broken=True)
                code = 137
            except (Gone, BrokenPipeError):
                return 1, msgspec.structs.replace(self._told, **_obituary(self._seat))
        while self._pass_on():
            pass
        with suppress(OSError):
            os.unlink(self._seat.path("order"))
        return code, self._told

    def _until_end(self, channel: Channel) -> int:
        poll = select.poll()
        for descriptor in (channel.reply, self._notes, *self._outputs):
            poll.register(descriptor, select.POLLIN)
        is_gone = False
        while True:
            # Answers may have come with the greeting already.
            while words := channel.next():
                if (status := self._heed(words)) is not None:
                    return status
            if is_gone:
                raise Gone
            self._obey(channel)
            ready = dict(poll.poll())
            self._pass_on()
            is_gone = bool(ready.get(channel.reply, 0) & select.POLLHUP)

    def _heed(self, words: list[str]) -> int | None:
        """Take in an answer; the exit code if it was the last."""
        match words:
            case ["end", status, kills, nanoseconds, peak]:
                self._tell(
                    oom=int(kills) > 0,
                    cpu_seconds=round(int(nanoseconds) / 1e9, 6),
                    max_memory_bytes=int(peak),
                )
                return int(status)
            case ["begun"]:
                self._has_begun = True
            case ["absent"]:
                self._tell(absent=True)
            case ["nowhere"]:
                self._tell(nowhere=True)
        return None

    def _obey(self, channel: Channel) -> None:
        """Pass on that the command is to end."""
        with suppress(BlockingIOError):
            self._is_to_end |= bool(set(os.read(self._notes, 4096)) - {signal.SIGCONT})
        if self._is_to_end and self._has_begun:
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

    def _tell(self, **known: object) -> None:
        self._told = msgspec.structs.replace(self._told, **known)


def _is_ready(descriptor: int, event: int, wait_ms: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(wait_ms))


def quiesce(seat: Seat) -> bool:
    """Nothing runs in the container when this returns; says whether it can be used again."""
    try:
        with Channel(seat, CLEAR_SECONDS) as channel:
            channel.quit(CLEAR_SECONDS)
    except (Silent, Gone, OSError):
        kill_container(seat)
        return False
    return True


def kill_container(seat: Seat) -> None:
    """The last resort: everything in it dies, whatever it does."""
    from acode.runner.container.api import Api, EngineError  # rarely needed, and large

    with suppress(EngineError):
        Api(seat.engine).post(f"/containers/{seat.container_id}/kill", seconds=KILL_SECONDS)


def _obituary(seat: Seat) -> dict[str, object]:
    """Why the container ended under us, as far as the engine knows."""
    from acode.runner.container.api import Api, EngineError

    why, oom = "its container is gone", False
    try:
        state = Api(seat.engine).get(f"/containers/{seat.container_id}/json")["State"]
        oom = bool(state.get("OOMKilled"))
        if not state.get("Running"):
            why = f"its container ended with exit code {state.get('ExitCode')}"
    except EngineError as error:
        if error.status != 404:
            why = f"its container is gone, and {error}"
    return {"lost": why, "oom": oom, "broken": True}
