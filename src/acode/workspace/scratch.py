"""Workspaces without git: an empty directory, or the project itself."""

import os

from acode.workspace.base import Collected, CommitText, Order
from acode.workspace.removal import discard


class Scratch:
    """An empty directory that goes with the attempt."""

    base = None
    strategy = "scratch"

    def __init__(self, order: Order, path: str, notes: tuple[str, ...] = ()) -> None:
        self.path = path
        self.notes = notes
        self._order = order
        os.makedirs(path, mode=0o700)

    @property
    def writable(self) -> tuple[str, ...]:
        """The directory."""
        return (self.path,)

    def collect(self, *, patch_file: str, commit: CommitText | None = None) -> Collected:  # noqa: ARG002
        """Nothing is kept of a scratch directory."""
        return Collected()

    def close(self, *, reuse: bool = True) -> None:  # noqa: ARG002
        """Remove it."""
        if not self._order.keep:
            discard(self.path, os.path.dirname(self._order.trees))


class InProject:
    """The user's own directory. What is done there stays there."""

    base = None
    strategy = "project"

    def __init__(self, order: Order) -> None:
        self.path = order.project_root
        self.notes: tuple[str, ...] = ()

    @property
    def writable(self) -> tuple[str, ...]:
        """The directory."""
        return (self.path,)

    def collect(self, *, patch_file: str, commit: CommitText | None = None) -> Collected:  # noqa: ARG002
        """What changed lies where it was changed."""
        return Collected()

    def close(self, *, reuse: bool = True) -> None:
        """Leave everything as it is."""
