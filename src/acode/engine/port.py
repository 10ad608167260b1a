"""The seam between the dispatcher and whoever runs attempts, wherever that is."""

from typing import Any, Protocol

from acode.model.task import Lease
from acode.worker.wire import FrameType


class Port(Protocol):
    """The way to one worker: a socket to a process, or a call to a neighbour.

    What goes through is a task frame with its assignment, or a control frame with an order.
    """

    def send(self, kind: FrameType, id_: str, payload: object) -> None:
        """Tell the worker something; into the void if it is gone, which somebody else notices."""
        ...

    def close(self) -> None:
        """Tell it nothing more."""
        ...


class Assigner(Protocol):
    """Turns a lease into what its worker is told."""

    def assignment(self, lease: Lease) -> Any:
        """Everything that the worker needs to know."""
        ...
