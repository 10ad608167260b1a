"""The stewards of a worker: those that tidy up after their attempt, and one that waits for work.

A fresh process costs more than the workspace that it makes. So whoever has tidied up is asked
again while work keeps coming; when there has been none for a while, nobody is kept waiting.
"""

import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

import msgspec

from acode.clock import ticks
from acode.runner.pipes import Pipes
from acode.worker.bounds import Bounds
from acode.worker.config import WorkerConfig
from acode.worker.loop import Loop
from acode.worker.reports import Begin, Free, Report, ReportReader, send_begin
from acode.worker.steward import be_steward
from acode.worker.wire import BrokenFrame

SPARE_SECONDS = 10.0
"""How long one waits for the next attempt: an idle worker is to cost next to nothing."""


class Hand:
    """The worker's end of one steward."""

    def __init__(self, pid: int, wire: socket.socket) -> None:
        self.pid = pid
        self.wire = wire
        self.is_free = False
        """It has tidied up, and nothing of its last attempt is left in it."""
        self._reader = ReportReader()

    def hear(self) -> Iterable[Report]:
        """What it has said; raises if it is gone or makes no sense."""
        data = self.wire.recv(1 << 16)
        if not data:
            raise EOFError
        return self._reader.feed(data)


GONE = (OSError, EOFError, msgspec.MsgspecError, BrokenFrame)
"""What hearing raises when there is nobody any more."""


class Stewards:
    """All of one worker's, but for the one at work, which its attempt looks after."""

    def __init__(
        self, config: WorkerConfig, inherited: dict[str, str], bounds: Bounds, loop: Loop
    ) -> None:
        self.pids: set[int] = set()
        """Children of the worker that have nothing to do with the present attempt."""
        self._config = config
        self._inherited = inherited
        self._bounds = bounds
        self._loop = loop
        self._tidying: dict[int, Hand] = {}
        self._spare: Hand | None = None
        self._spare_until = 0.0

    def call(self, begin: Begin, pipes: Pipes) -> Hand:
        """One that has begun with an attempt: whoever waits for work, else a new one."""
        if self._spare is not None:
            hand, self._spare = self._spare, None
            self._loop.forget(hand.wire.fileno())
            try:
                send_begin(hand.wire, begin, pipes)
            except OSError:  # it was killed
                hand.wire.close()
            else:
                self.pids.discard(hand.pid)
                hand.is_free = False
                return hand
        hand = self._fork()
        with suppress(OSError):  # its death is noticed by whoever waits for it
            send_begin(hand.wire, begin, pipes)
        return hand

    def _fork(self) -> Hand:
        ours, theirs = socket.socketpair()
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            raise
        if pid == 0:
            be_steward(self._config, self._inherited, self._bounds, theirs)
        theirs.close()
        return Hand(pid, ours)

    def dismiss(self, hand: Hand) -> None:
        """Its attempt is over; it tidies up by itself, and nobody waits for it."""
        self.pids.add(hand.pid)
        self._tidying[hand.pid] = hand
        self._loop.watch(hand.wire.fileno(), partial(self._hear, hand))
        self.reap()  # its death may have been told while it was nobody's
        if hand.is_free:
            self._keep(hand)

    def _hear(self, hand: Hand) -> None:
        try:
            is_free = any(isinstance(report, Free) for report in hand.hear())
        except GONE:
            self._hang_up(hand)
        else:
            # Whoever waits has nothing to say.
            if is_free and hand is not self._spare:
                self._keep(hand)

    def _keep(self, hand: Hand) -> None:
        if self._spare is not None:
            self._hang_up(hand)
            return
        del self._tidying[hand.pid]
        self._spare, self._spare_until = hand, ticks() + SPARE_SECONDS

    def _hang_up(self, hand: Hand) -> None:
        """Whoever hears no more ends."""
        if hand is self._spare:
            self._spare = None
        self._tidying.pop(hand.pid, None)
        self._loop.forget(hand.wire.fileno())
        hand.wire.close()

    def reap(self) -> None:
        """Take notice of those that have ended."""
        for pid in tuple(self.pids):
            if os.waitpid(pid, os.WNOHANG)[0]:
                self.pids.discard(pid)

    @property
    def deadline(self) -> float | None:
        """When nobody needs to wait for work any longer."""
        return None if self._spare is None else self._spare_until

    def on_time(self) -> None:
        """Let whoever has waited long enough go."""
        if self._spare is not None and ticks() >= self._spare_until:
            self._hang_up(self._spare)

    def close(self) -> None:
        """The worker leaves: nobody waits for work, and whoever tidies up ends after that."""
        for hand in (*self._tidying.values(), *([self._spare] if self._spare else [])):
            self._hang_up(hand)
