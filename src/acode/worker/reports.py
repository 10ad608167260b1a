"""What a worker and the steward of its attempt tell each other."""

import os
import socket
from collections.abc import Iterator

import msgspec

from acode.model.ending import Usage
from acode.model.failure import Failure
from acode.model.limits import AttemptLimits
from acode.model.task import Push
from acode.runner.pipes import Pipes
from acode.worker.messages import Assignment
from acode.worker.wire import BodyReader, wrap


class Prepared(msgspec.Struct, frozen=True, tag=True):
    """The workspace is ready."""


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The workspace could not be made, or a command not be started."""

    failure: Failure | None
    setback: str | None = None
    """Why the machine, not the task, is at fault."""


class Started(msgspec.Struct, frozen=True, tag=True):
    """A command runs: signals reach it from here on."""


class Leftovers(msgspec.Struct, frozen=True, tag=True):
    """The command is gone, something below it is not."""


class Gone(msgspec.Struct, frozen=True, tag=True):
    """The command and everything below it is gone."""

    status: int
    usage: Usage
    oom: bool = False
    """The kernel took it because its container's memory ran out."""


class Vanished(msgspec.Struct, frozen=True, tag=True):
    """Whatever the command ran in is gone, and nobody knows how far it got."""

    why: str


class Spent(msgspec.Struct, frozen=True, tag=True):
    """The container that the command ran in is of no more use."""


class Remark(msgspec.Struct, frozen=True, tag=True):
    """A line for the task's log."""

    tag: str
    text: str


class Kept(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """What is left of the attempt; the steward only tidies up from here on."""

    artifacts: tuple[str, ...] = ()
    branch: str | None = None
    patch: str | None = None
    push: Push | None = None
    problem: str | None = None
    """Why the result could not be kept."""


class Free(msgspec.Struct, frozen=True, tag=True):
    """Everything is tidied up, and nothing of the attempt is left in the steward: the last word."""


Report = Prepared | Refused | Started | Leftovers | Gone | Vanished | Spent | Remark | Kept | Free


class Begin(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Prepare the workspace of an attempt. What its commands write to travels along."""

    task: Assignment
    suite: str
    """The directories of the attempt beside its workspace."""
    limits: AttemptLimits
    is_grouped: bool
    """Whether its commands enter the worker's control group."""


class Run(msgspec.Struct, frozen=True, tag=True):
    """Run a command: the task's own, or one of its checks by its place."""

    check: int | None = None


class Collect(msgspec.Struct, frozen=True, tag=True):
    """Keep what is in the workspace; a success becomes a branch."""

    success: bool


class Leave(msgspec.Struct, frozen=True, tag=True):
    """No further command, and nothing to collect: put the workspace away."""


Order = Begin | Run | Collect | Leave

_encode = msgspec.msgpack.Encoder().encode
_reports: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report)
_orders: msgspec.msgpack.Decoder[Order] = msgspec.msgpack.Decoder(Order)


def tell(wire: socket.socket, message: Report | Order) -> None:
    """Send a message whole."""
    wire.sendall(wrap(_encode(message)))


def send_begin(wire: socket.socket, begin: Begin, pipes: Pipes) -> None:
    """Send the first order of an attempt, and with it the ends that its commands write to."""
    data = wrap(_encode(begin))
    sent = socket.send_fds(wire, [data], [pipes.stdout_end, pipes.stderr_end])
    wire.sendall(data[sent:])


class ReportReader:
    """The worker's ear: takes what has come and never waits."""

    def __init__(self) -> None:
        self._bodies = BodyReader()

    def feed(self, data: bytes) -> Iterator[Report]:
        """Every report that is complete now."""
        for body in self._bodies.feed(data):
            yield _reports.decode(body)


class OrderReader:
    """The steward's ear: waits for the next order."""

    def __init__(self, wire: socket.socket) -> None:
        self.ends: list[int] = []
        """What the commands of the attempt write to."""
        self._wire = wire
        self._bodies = BodyReader()
        self._waiting: list[bytes] = []

    def next(self) -> Order | None:
        """The next order; None when the worker is gone."""
        while not self._waiting:
            data, ends, *_ = socket.recv_fds(self._wire, 1 << 16, 2)
            if not data:
                return None
            for end in ends:  # Python passes no flag on that would do this at once
                os.set_inheritable(end, False)
            self.ends += ends
            self._waiting += self._bodies.feed(data)
        return _orders.decode(self._waiting.pop(0))
