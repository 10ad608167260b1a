"""The long way: a steward prepares, runs, checks and collects; the worker tells it what is next."""

import os
import signal
from contextlib import suppress

from acode.model.ending import Usage
from acode.runner.children import Tree
from acode.runner.pipes import Pipes
from acode.runner.tree import signal_below
from acode.worker.bounds import Bounds
from acode.worker.course import Listener
from acode.worker.loop import Loop
from acode.worker.messages import Assignment
from acode.worker.places import Places, Shelves
from acode.worker.reports import (
    Begin,
    Collect,
    Free,
    Gone,
    Kept,
    Leave,
    Leftovers,
    Order,
    Prepared,
    Refused,
    Remark,
    Report,
    Run,
    Spent,
    Started,
    Vanished,
    tell,
)
from acode.worker.stewards import GONE, Hand, Stewards


class Guided:
    """The worker's end of a steward."""

    def __init__(
        self,
        task: Assignment,
        shelves: Shelves,
        listener: Listener,
        bounds: Bounds,
        loop: Loop,
        stewards: Stewards,
    ) -> None:
        self.pipes = Pipes()
        self._task = task
        self._shelves = shelves
        self._listener = listener
        self._bounds = bounds
        self._loop = loop
        self._stewards = stewards
        self._pid = 0
        self._hand: Hand | None = None
        self._places: Places | None = None
        self._is_prepared = False
        self._is_running = False
        self._unheard: signal.Signals | None = None
        """What was signalled while no command was there to hear it."""
        self._is_done = False
        """The steward only tidies up from here on, and nobody waits for it."""
        self._remains: Tree | None = None
        """What a steward that died has left to us."""
        self._usage = Usage()

    def start(self) -> None:
        """Find a steward and tell it to begin."""
        try:
            self._places = self._shelves.hand_out(self._task.task_id, self._task.number)
            hand = self._stewards.call(self._begin(self._places), self.pipes)
        except OSError as error:
            self._is_done = True
            self._listener.on_refused(Refused(None, str(error)))
            return
        self._hand, self._pid = hand, hand.pid
        self._loop.watch(hand.wire.fileno(), self._hear)

    def _begin(self, places: Places) -> Begin:
        bounds = self._bounds
        return Begin(
            task=self._task,
            suite=places.suite,
            limits=bounds.limits,
            is_grouped=bounds.group is not None,
        )

    def _hear(self) -> None:
        if self._hand is None:
            return
        try:
            reports = tuple(self._hand.hear())
        except GONE:
            self._hang_up()  # it is gone; that it has died is a child's end, too
            return
        for report in reports:
            self._heed(report)

    def _heed(self, report: Report) -> None:
        match report:
            case Prepared():
                self._is_prepared = True
                self._listener.on_begin()
                self._order(Run())
            case Refused():
                self._listener.on_refused(report)
                self._let_go()
            case Remark(tag, text):
                self._listener.on_remark(tag, text)
            case Started():
                self._is_running = True
                if self._unheard is not None:
                    signal_below(self._pid, self._unheard)
            case Leftovers():
                self._listener.on_strays()
            case Gone(status, usage, oom):
                self._is_running = False
                self._add(usage)
                self._listener.on_over(status, oom=oom)
            case Vanished(why):
                self._listener.on_lost(why)
                self._let_go()
            case Spent():
                self._listener.on_spent()
            case Kept():
                self._is_done = True
                self._listener.on_kept(report)
            case Free():
                if self._hand is not None:
                    self._hand.is_free = True

    def _add(self, usage: Usage) -> None:
        self._usage = Usage(
            round(self._usage.cpu_seconds + usage.cpu_seconds, 6),
            max(self._usage.max_memory_bytes, usage.max_memory_bytes),
        )

    def _order(self, order: Order) -> None:
        if self._hand is not None:
            with suppress(OSError):  # its death is noticed elsewhere
                tell(self._hand.wire, order)

    def _let_go(self) -> None:
        """There is nothing more to be done: one that waits for an order tidies up instead."""
        self._is_done = True
        self._order(Leave())

    def _hang_up(self) -> None:
        if self._hand is not None:
            self._loop.forget(self._hand.wire.fileno())
            self._hand.wire.close()
            self._hand = None

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
        if not self._is_running and number in (signal.SIGTERM, signal.SIGKILL):
            self._unheard = number
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
                signal_below(os.getpid(), signal.SIGKILL, self._stewards.pids)
                self._bury(self._remains)

    def _bury(self, remains: Tree) -> None:
        if remains.reap(self._stewards.pids) and not self._is_done:
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
        if self._task.seat is not None:
            # Not by the steward: the next attempt may be at work there by then.
            self._shelves.empty_inside()
        if self._pid and self._hand is not None:
            self._loop.forget(self._hand.wire.fileno())
            self._stewards.dismiss(self._hand)
        elif self._pid:
            self._stewards.pids.add(self._pid)
            self._stewards.reap()  # it may be dead, and will not be heard of again
        elif self._places is not None:
            self._hang_up()
            self._shelves.take_back(self._places)

    @property
    def usage(self) -> Usage:
        """What the commands of this attempt have used."""
        return self._usage


def _remains() -> Tree:
    tree = Tree(0)
    tree.status = 0
    return tree
