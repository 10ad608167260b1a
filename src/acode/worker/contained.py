"""The short way into a container: the worker talks to the supervisor there by itself."""

import os
import signal
from contextlib import suppress

from acode.clock import Deadline
from acode.model.ending import Usage
from acode.runner.container.channel import DOOR_SECONDS, RETRY_SECONDS, Wire
from acode.runner.container.order import Command, order_of
from acode.runner.container.seat import Seat, leave_order
from acode.runner.container.told import Listening, kill_container
from acode.runner.pipes import Pipes
from acode.worker.bounds import Bounds
from acode.worker.config import WorkerConfig
from acode.worker.course import Listener
from acode.worker.direct import Direct
from acode.worker.inside import environment_inside, hand_over_places, reports_of
from acode.worker.loop import Loop
from acode.worker.messages import Assignment
from acode.worker.places import Places, Shelves, checkpoint, environment
from acode.worker.reports import Gone, Refused, Remark, Spent, Vanished

GREET_SECONDS = 5.0
"""More than a supervisor takes from one session to the next."""


class SeatPipes(Pipes):
    """The named pipes that commands in a container print to.

    Both ends in one, so that whoever opens them inside never waits, and there is no end of file.
    """

    def __init__(self, seat: Seat) -> None:
        flags = os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC
        self.stdout = self.stdout_end = os.open(seat.path("out"), flags)
        self.stderr = self.stderr_end = os.open(seat.path("err"), flags)

    def close(self) -> None:
        """Let go of both."""
        os.close(self.stdout)
        os.close(self.stderr)


class Contained(Direct):
    """A command in the worker's container, with nothing to do before and after."""

    def __init__(
        self,
        task: Assignment,
        config: WorkerConfig,
        shelves: Shelves,
        inherited: dict[str, str],
        strangers: set[int],
        listener: Listener,
        bounds: Bounds,
        loop: Loop,
    ) -> None:
        if task.seat is None:
            raise AssertionError("a contained command without a seat")
        self._seat = task.seat
        super().__init__(task, config, shelves, inherited, strangers, listener, bounds)
        self._loop = loop
        self._wire: Wire | None = None
        self._listening = Listening()
        self._code: int | None = None
        """The command's exit code, as soon as it is known."""
        self._is_to_end = False
        self._patience = Deadline(0)

    def _open_pipes(self) -> Pipes:
        return SeatPipes(self._seat)

    def start(self) -> None:
        """Leave an order and knock."""
        try:
            self._leave_order(*self._prepare())
            wire = Wire(self._seat, "run")
        except OSError as error:
            self._listener.on_refused(Refused(None, str(error)))
            return
        door = Deadline(DOOR_SECONDS)
        while not wire.knock():
            if not door.rest(RETRY_SECONDS):
                wire.close()
                self._listening.note(unstarted="its container does not answer", broken=True)
                self._report()
                return
        self._wire = wire
        self._patience = Deadline(GREET_SECONDS)
        self._loop.watch(wire.reply, self._hear)

    def _leave_order(self, places: Places, workspace: str) -> None:
        task = self._task
        hand_over_places(self._seat, places, checkpoint(task, self._config))
        env = environment_inside(task.env, environment(task, self._config, places, workspace))
        directory = os.path.join(workspace, task.cwd or ".")
        self._listener.on_begin()
        leave_order(self._seat, order_of(Command(task.argv, env, directory)))

    def _hear(self) -> None:
        wire = self._wire
        if wire is None:
            return
        while words := wire.next():
            if words[0] == "gone":
                self._listening.note(strays=words[1:] == ["some"])
                self._end(wire)
                return
            if (code := self._listening.heed(words)) is not None:
                self._code = code
                wire.leave()
        if wire.is_cut and self._is_gone():
            self._listening.bury(self._seat)
            self._end(wire)
        elif self._is_to_end and self._listening.has_begun:
            self.signal(signal.SIGTERM)

    def _is_gone(self) -> bool:
        """Before it greets us a supervisor may still hang up on whoever was there before."""
        return self._listening.has_greeted or not self._patience.rest(RETRY_SECONDS)

    def _end(self, wire: Wire) -> None:
        self._loop.forget(wire.reply)
        wire.close()
        self._wire = None
        with suppress(FileNotFoundError):
            os.unlink(self._seat.path("order"))
        self._report()

    def _report(self) -> None:
        listener, told = self._listener, self._listening.told
        status = signal.SIGKILL.value if self._code is None else self._code << 8
        for report in reports_of(told, self._task.argv, self._task.cwd, status):
            match report:
                case Spent():
                    listener.on_spent()
                case Remark(tag, text):
                    listener.on_remark(tag, text)
                case Refused():
                    listener.on_refused(report)
                case Vanished(why):
                    listener.on_lost(why)
                case Gone(status, _, oom):
                    listener.on_over(status, oom=oom)

    def signal(self, number: signal.Signals) -> None:
        """Ask what runs inside to end, or end it: a door that closes kills."""
        if self._wire is None:
            return
        if number == signal.SIGKILL:
            self._wire.hang_up()
        elif number == signal.SIGTERM:
            # Before it has begun nobody would hear.
            self._is_to_end = not self._listening.has_begun
            if self._listening.has_begun:
                with suppress(BrokenPipeError):
                    self._wire.say("term")

    def on_child(self) -> None:
        """None of ours."""

    def clean(self) -> None:
        """Remove what it leaves in its container, too."""
        super().clean()
        self._shelves.empty_inside()

    def abandon(self) -> None:
        """It does not obey: it goes with its container."""
        kill_container(self._seat)
        self._listening.note(broken=True)
        if self._wire is not None:
            self._end(self._wire)

    @property
    def usage(self) -> Usage:
        """What the command and all below it used, as their container counted."""
        told = self._listening.told
        return Usage(told.cpu_seconds, told.max_memory_bytes)
