"""The long way: a steward prepares, runs, checks and collects; the worker tells it what is next."""

import os
import signal
import socket
from contextlib import suppress

import msgspec

from acode.model.ending import Usage
from acode.runner.children import Tree
from acode.runner.pipes import Pipes
from acode.runner.tree import signal_below
from acode.worker.bounds import Bounds
from acode.worker.course import Listener
from acode.worker.loop import Loop
from acode.worker.messages import Assignment, WorkerConfig
from acode.worker.places import Places, Shelves
from acode.worker.reports import (
    Collect,
    Gone,
    Kept,
    Leftovers,
    Order,
    Prepared,
    Refused,
    Remark,
    Report,
    ReportReader,
    Run,
    Spent,
    Vanished,
    tell,
)
from acode.worker.steward import be_steward
from acode.worker.wire import BrokenFrame


class Guided:
    """The worker's end of a steward."""

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
        self.pipes = Pipes()
        self._task = task
        self._config = config
        self._shelves = shelves
        self._inherited = inherited
        self._strangers = strangers
        self._listener = listener
        self._bounds = bounds
        self._loop = loop
        self._pid = 0
        self._wire: socket.socket | None = None
        self._reader = ReportReader()
        self._places: Places | None = None
        self._is_prepared = False
        self._is_done = False
        """The steward only tidies up from here on, and nobody waits for it."""
        self._remains: Tree | None = None
        """What a steward that died has left to us."""
        self._usage = Usage()

    def start(self) -> None:
        """Fork the steward."""
        ours, theirs = socket.socketpair()
        try:
            self._places = self._shelves.hand_out(self._task.task_id, self._task.number)
            self._pid = os.fork()
        except OSError as error:
            ours.close()
            theirs.close()
            self._is_done = True
            self._listener.on_refused(Refused(None, str(error)))
            return
        if self._pid == 0:
            be_steward(
                self._task,
                self._config,
                self._places,
                self._inherited,
                self.pipes,
                theirs,
                self._bounds.steps(),
            )
        theirs.close()
        self._wire = ours
        self._loop.watch(ours.fileno(), self._hear)

    def _hear(self) -> None:
        if self._wire is None:
            return
        try:
            data = self._wire.recv(1 << 16)
            for report in self._reader.feed(data):
                self._heed(report)
        except (OSError, msgspec.MsgspecError, BrokenFrame):
            data = b""
        if not data:
            self._hang_up()  # it is gone; that it has died is a child's end, too

    def _heed(self, report: Report) -> None:
        match report:
            case Prepared():
                self._is_prepared = True
                self._listener.on_begin()
                self._order(Run())
            case Refused():
                self._is_done = not self._is_prepared
                self._listener.on_refused(report)
            case Remark(tag, text):
                self._listener.on_remark(tag, text)
            case Leftovers():
                self._listener.on_strays()
            case Gone(status, usage, oom):
                self._add(usage)
                self._listener.on_over(status, oom=oom)
            case Vanished(why):
                self._listener.on_lost(why)
            case Spent():
                self._listener.on_spent()
            case Kept():
                self._is_done = True
                self._listener.on_kept(report)

    def _add(self, usage: Usage) -> None:
        self._usage = Usage(
            round(self._usage.cpu_seconds + usage.cpu_seconds, 6),
            max(self._usage.max_memory_bytes, usage.max_memory_bytes),
        )

    def _order(self, order: Order) -> None:
        if self._wire is not None:
            with suppress(OSError):  # its death is noticed elsewhere
                tell(self._wire, order)

    def _hang_up(self) -> None:
        if self._wire is not None:
            self._loop.forget(self._wire.fileno())
            self._wire.close()
            self._wire = None

    def run_check(self, place: int) -> None:
        """Run one of the task's checks."""
        self._order(Run(place))

    def collect(self, *, success: bool) -> None:
        """Keep what is in the workspace."""
        self._order(Collect(success))

    def signal(self, number: signal.Signals) -> None:
        """Signal everything below the steward, and itself while it prepares."""
        if self._pid == 0:
            return
        signal_below(self._pid, number)
        # A steward that copies files by itself has no child that could be ended.
        if not self._is_prepared and number is signal.SIGTERM:
            os.kill(self._pid, number)

    def on_child(self) -> None:
        """Find out whether it was the steward."""
        if self._remains is not None:
            self._bury(self._remains)
        elif self._pid and not self._is_done and os.waitpid(self._pid, os.WNOHANG)[0]:
            self._pid = 0
            # It was our steward's last word, if it had one.
            self._hear()
            if not self._is_done:
                self._remains = _remains()
                signal_below(os.getpid(), signal.SIGKILL, self._strangers)
                self._bury(self._remains)

    def _bury(self, remains: Tree) -> None:
        if remains.reap(self._strangers) and not self._is_done:
            self._is_done = True
            self._listener.on_lost("its steward died")

    def abandon(self) -> None:
        """Kill the steward with everything below it."""
        if self._pid:
            signal_below(self._pid, signal.SIGKILL)
            os.kill(self._pid, signal.SIGKILL)

    def clean(self) -> None:
        """Let the steward tidy up by itself."""
        self.pipes.close()
        if self._wire is not None:
            # What it still has to say is of no interest; it ends when it has tidied up.
            self._hang_up()
        if self._task.seat is not None:
            # Not by the steward: the next attempt may be at work there by then.
            self._shelves.empty_inside()
        if self._pid:
            self._strangers.add(self._pid)
        elif self._places is not None:
            self._shelves.take_back(self._places)

    @property
    def usage(self) -> Usage:
        """What the commands of this attempt have used."""
        return self._usage


def _remains() -> Tree:
    tree = Tree(0)
    tree.status = 0
    return tree
