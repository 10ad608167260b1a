"""The contract of workspaces. Synchronous; called inside the process that runs one attempt.

A workspace has a name on disk before anything of it is made, so that a crash leaves nothing that
`sweep` cannot find. Opening one may move the calling process into namespaces of its own, and
nobody else may reap the children of this process while a call runs.
"""

from typing import Literal, Protocol

import msgspec

from acode.model.worker import ProcessIdentity

Kind = Literal["auto", "worktree", "scratch", "project"]
"""`auto` is a worktree inside a repository that has a commit, and a scratch directory elsewhere."""
Strategy = Literal["auto", "overlay", "warm", "plain"]
"""`auto` is the first of these that the machine allows."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for. Plain data: it is written down, so that others can clean up."""

    task_id: str
    number: int
    worker_id: str
    kind: Kind
    project_root: str
    """The user's directory; the repository's top level may be above it."""
    trees: str
    """`<baseDir>/<worker-id>`: workspaces of this worker lie below it."""
    owner: ProcessIdentity
    """The worker: while it lives, nobody else touches the workspace."""
    base: str | None = None
    """The commit to begin with, in any words of git; HEAD if nothing is said."""
    commit: str | None = None
    """What that was when the task was added: every machine begins with the same."""
    remote: str | None = None
    """Where a commit is fetched from that is not here; None is `origin`, or the only one."""
    strategy: Strategy = "auto"
    warm: int = 2
    """How many ready trees are kept."""
    copy_ignored: tuple[str, ...] = ()
    keep: bool = False
    """For a look afterwards: the tree stays, and lies where everybody sees it."""
    max_file_bytes: int = 256 * 1024 * 1024
    """Files larger than this are left out of results."""


class CommitText(msgspec.Struct, frozen=True):
    """What a commit of results says."""

    message: str
    author: str = "acode"
    email: str = "acode@localhost"


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt changed, and where it is kept."""

    files: int = 0
    """How many files differ from the base."""
    branch: str | None = None
    patch: str | None = None
    """The path of the patch, if anything was changed."""
    saved: str | None = None
    """The ref that keeps work which is on no branch."""
    commit: str | None = None
    left_out: tuple[str, ...] = ()
    """Changed files that could not be kept: too large, unreadable, neither file nor link."""


class Workspace(Protocol):
    """A place to work, until it is closed."""

    @property
    def path(self) -> str:
        """Where the command works: in a tree, the place that the project has in its repository."""
        ...

    @property
    def base(self) -> str | None:
        """The commit that the tree began as; None if it is no tree."""
        ...

    @property
    def strategy(self) -> str:
        """How it was made: overlay, warm, plain, scratch or project."""
        ...

    @property
    def writable(self) -> tuple[str, ...]:
        """What a confined command may write to; hooks and settings of git are never among it."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know, one sentence each."""
        ...

    def collect(self, *, patch_file: str, commit: CommitText | None = None) -> Collected:
        """Keep what was changed: as a patch, and as a branch (a saved ref without a text)."""
        ...

    def close(self, *, reuse: bool = True) -> None:
        """Save what was not collected and put the workspace away. Safe to repeat.

        `reuse` is False if something may still write to it: then nobody gets it ever again.
        """
        ...
