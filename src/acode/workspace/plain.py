"""The plain way: every workspace is a checkout of its own."""

from typing import Protocol

from acode.workspace.checkout import check_out
from acode.workspace.entry import point_to, unregister
from acode.workspace.removal import discard
from acode.workspace.state import State


class Source(Protocol):
    """Where trees come from and where they go."""

    name: str

    def fill(self, state: State) -> None:
        """Make the tree, its trusted index, and the account of how it was made.

        The tree points to its entry, which is still to come.
        """
        ...

    def attach(self, state: State) -> None:
        """Make sure that this process sees the tree's files. Safe to repeat."""
        ...

    def layer(self, state: State) -> str:
        """The directory in which whatever the task has written lies."""
        ...

    def changed(self, state: State) -> set[str] | None:
        """The only paths that can differ from the base; None if all have to be looked at."""
        ...

    def release(self, state: State, *, reuse: bool) -> None:
        """Put away everything of a workspace whose work is saved. Safe to repeat."""
        ...


class Plain:
    """Checks out, and throws away."""

    name = "plain"

    def fill(self, state: State) -> None:
        """Check out all files."""
        record = state.record
        check_out(record.repository, record.base, state.tree, state.kit)
        point_to(state.entry, state.tree)

    def attach(self, state: State) -> None:
        """The tree is there for everybody."""

    def layer(self, state: State) -> str:
        """It lies among everything else."""
        return state.tree

    def changed(self, state: State) -> None:
        """Nobody keeps a list."""

    def release(self, state: State, *, reuse: bool) -> None:  # noqa: ARG002
        """Throw the tree away."""
        unregister(state.entry)
        discard(state.tree, state.base_dir)
        state.remove()
