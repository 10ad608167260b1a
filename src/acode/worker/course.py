"""How the work of an attempt is done, seen from the worker's loop."""

import signal
from typing import Protocol

from acode.model.ending import Usage
from acode.runner.pipes import Pipes
from acode.worker.reports import Kept, Refused


class Listener(Protocol):
    """Whom a course tells how far it has come."""

    def on_remark(self, tag: str, text: str) -> None:
        """Something that belongs into the task's log."""
        ...

    def on_begin(self) -> None:
        """The workspace is ready; what is written from here on is the command's."""
        ...

    def on_refused(self, refused: Refused) -> None:
        """There will be no command."""
        ...

    def on_strays(self) -> None:
        """The command is gone and has left something running."""
        ...

    def on_over(self, status: int, *, oom: bool = False) -> None:
        """The command and everything below it is gone."""
        ...

    def on_kept(self, kept: Kept) -> None:
        """What is left of the attempt is in its place."""
        ...

    def on_spent(self) -> None:
        """The container that the command ran in is of no more use."""
        ...

    def on_lost(self, why: str) -> None:
        """Whoever did the work is gone, and nobody knows how far it got."""
        ...


class Course(Protocol):
    """One way to do the work of an attempt."""

    pipes: Pipes

    def start(self) -> None:
        """Prepare the workspace and run the command."""
        ...

    def run_check(self, place: int) -> None:
        """Run one of the task's checks."""
        ...

    def collect(self, *, success: bool) -> None:
        """Keep what is worth keeping."""
        ...

    def signal(self, number: signal.Signals) -> None:
        """Signal whatever runs for this attempt, those in sessions of their own too."""
        ...

    def on_child(self) -> None:
        """Some child of the worker has ended."""
        ...

    def abandon(self) -> None:
        """Give up on whatever does not end."""
        ...

    def clean(self) -> None:
        """Remove what the attempt no longer needs."""
        ...

    @property
    def usage(self) -> Usage:
        """What the attempt has used."""
        ...
