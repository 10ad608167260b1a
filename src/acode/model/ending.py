"""How an attempt ended: a closed union, one class for each way."""

import msgspec

from acode.model.failure import Failure


class Exited(msgspec.Struct, frozen=True, gc=False, tag="exited"):
    """The command ended by itself."""

    code: int


class Signalled(msgspec.Struct, frozen=True, gc=False, tag="signalled", omit_defaults=True):
    """A signal that acode did not send ended the command."""

    signal: int
    oom: bool = False


class TimedOut(msgspec.Struct, frozen=True, gc=False, tag="timedOut"):
    """The attempt's time was up and acode ended it."""

    after_seconds: float


class Cancelled(msgspec.Struct, frozen=True, gc=False, tag="cancelled"):
    """A user asked for the end."""


class OverLimit(msgspec.Struct, frozen=True, gc=False, tag="overLimit", omit_defaults=True):
    """The attempt used more of something than it may."""

    what: str
    limit: float
    used: float
    oom: bool = False


class Lost(msgspec.Struct, frozen=True, gc=False, tag="lost"):
    """The worker is proven dead; nobody knows how far the command got."""

    why: str


class Released(msgspec.Struct, frozen=True, gc=False, tag="released"):
    """Interrupted through no fault of the task; the attempt does not count."""

    why: str


class NotStarted(msgspec.Struct, frozen=True, gc=False, tag="notStarted"):
    """The command never ran."""

    failure: Failure


Ending = Exited | Signalled | TimedOut | Cancelled | OverLimit | Lost | Released | NotStarted


class Usage(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What the attempt's process tree used."""

    cpu_seconds: float = 0.0
    max_memory_bytes: int = 0
