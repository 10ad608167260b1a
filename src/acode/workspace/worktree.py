"""A git worktree as a workspace, wherever its tree comes from."""

import os
import stat
from contextlib import suppress

import msgspec

from acode.errors import WorkspaceFailed
from acode.workspace import results
from acode.workspace.base import Collected, CommitText
from acode.workspace.conventions import read_made
from acode.workspace.copying import copy_index
from acode.workspace.layer import disarm
from acode.workspace.plain import Source
from acode.workspace.results import Work
from acode.workspace.snapshot import take
from acode.workspace.state import State


class Worktree:
    """One tree between its hand-out and its end."""

    def __init__(self, state: State, source: Source, notes: tuple[str, ...] = ()) -> None:
        self.notes = notes
        self._state = state
        self._source = source
        self._is_closed = False

    @property
    def path(self) -> str:
        """The project's place in the tree."""
        return os.path.normpath(
            os.path.join(self._state.tree, self._state.record.repository.inside)
        )

    @property
    def base(self) -> str:
        """The commit that the tree began as."""
        return self._state.record.base

    @property
    def strategy(self) -> str:
        """How it was made."""
        return self._source.name

    @property
    def writable(self) -> tuple[str, ...]:
        """The tree, and what git needs to commit in it."""
        common = self._state.record.repository.common
        shared = (os.path.join(common, name) for name in ("objects", "refs", "logs", "lfs"))
        return (self._state.tree, self._state.entry.path, *shared)

    def collect(self, *, patch_file: str, commit: CommitText | None = None) -> Collected:
        """Keep what was changed: as a patch, and as a branch (a saved ref without a text)."""
        repository, work = self._state.record.repository, self._work()
        kept = Collected(left_out=work.snapshot.left_out)
        if results.has_changes(repository, work):
            results.write_patch(repository, work, patch_file)
            kept = msgspec.structs.replace(
                results.save(repository, work, self._text())
                if commit is None
                else results.publish(repository, work, commit),
                files=results.changed_files(repository, work),
                patch=patch_file,
                left_out=work.snapshot.left_out,
            )
        self._state.mark_kept()
        return kept

    def close(self, *, reuse: bool = True) -> None:
        """Save what was not collected and put the tree away. Safe to repeat."""
        if not self._is_closed:
            self.give_up(reuse=reuse)
            self._is_closed = True

    def give_up(self, *, reuse: bool = False) -> str | None:
        """Put the tree away; the ref of what had to be saved first. Leaves one that is kept."""
        if self._state.record.order.keep:
            self._leave()
            return None
        saved = self._save() if self._state.holds_work else None
        self._state.mark_kept()
        self._source.release(self._state, reuse=reuse)
        return saved

    def _save(self) -> str | None:
        repository, work = self._state.record.repository, self._work()
        if not results.has_changes(repository, work):
            return None
        return results.save(repository, work, self._text()).saved

    def _leave(self) -> None:
        """The tree is the user's from now on: theirs to look at, to prune, to remove."""
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self._state.entry.path, "locked"))
        self._state.remove()

    def _work(self) -> Work:
        state, record = self._state, self._state.record
        self._source.attach(state)
        if not stat.S_ISDIR(os.lstat(state.tree).st_mode):
            raise WorkspaceFailed(f"{state.tree} is no directory any more")
        disarm(self._source.layer(state), state.tree)
        git = state.git()
        copy_index(state.index, git.index)
        snapshot = take(git, record.order.max_file_bytes, self._source.changed(state))
        git.remove()
        head = results.head_of(record.repository, state.entry.path, record.base)
        return Work(record.order.task_id, record.base, head, snapshot)

    def _text(self) -> CommitText:
        order = self._state.record.order
        return CommitText(f"Saved work of task {order.task_id}, attempt {order.number}\n")


def notes_of(state: State) -> tuple[str, ...]:
    """What the user should know about a tree."""
    return read_made(state.made).notes
