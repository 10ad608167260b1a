"""Why an attempt is ended before its time, and what that makes of it."""

from acode.model.ending import Cancelled, Ending, Released
from acode.worker.messages import Why

_ENDINGS: dict[Why, tuple[Ending, str]] = {
    Why.CANCEL: (Cancelled(), "cancelled"),
    Why.RELEASE: (Released("interrupted"), "interrupted; it will run again"),
    Why.SILENCE: (
        Released("its host was cut off from the queue"),
        "this host is cut off from the queue: the task runs again, here or elsewhere",
    ),
}


def ending_of(why: Why) -> tuple[Ending, str]:
    """How the attempt ends then, and what its log says."""
    return _ENDINGS[why]
