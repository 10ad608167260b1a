"""Ready trees: handed out by a rename, reset after the task, and kept only if proven clean."""

import os
import secrets
from contextlib import suppress

import msgspec

from acode.errors import AcodeError
from acode.workspace.checkout import notes_on, settle, slot
from acode.workspace.conventions import Made, read_made
from acode.workspace.entry import point_to, unregister
from acode.workspace.files import write_bytes
from acode.workspace.plain import Plain
from acode.workspace.removal import discard
from acode.workspace.resetting import reset
from acode.workspace.state import State
from acode.workspace.treegit import TreeGit

FOLDER = ".warm"


class Warm:
    """Hands out ready trees, or checks out if there is none; takes clean ones back."""

    name = "warm"

    def __init__(self) -> None:
        self._plain = Plain()

    def fill(self, state: State) -> None:
        """Take a ready tree and bring it to the commit; a new one if that does not work."""
        for ready in _candidates(state):
            if not _takes(ready, state.kit):
                continue
            try:
                _hand_out(state)
            except (AcodeError, OSError):
                # Damaged, whatever the reason: nobody gets it again.
                for left in (state.kit, state.tree):
                    discard(left, state.base_dir)
            else:
                return
        self._plain.fill(state)

    def attach(self, state: State) -> None:
        """The tree is there for everybody."""

    def layer(self, state: State) -> str:
        """It lies among everything else."""
        return state.tree

    def changed(self, state: State) -> None:
        """Nobody keeps a list."""

    def release(self, state: State, *, reuse: bool) -> None:
        """Reset the tree for the next task; throw it away if that cannot be done completely."""
        if reuse and _has_room(state):
            unregister(state.entry)
            with suppress(AcodeError, OSError):
                _take_back(state)
        self._plain.release(state, reuse=False)


def folder_of(base_dir: str) -> str:
    """Where the ready trees are. What lies there is whole and clean."""
    return os.path.join(base_dir, FOLDER)


def _candidates(state: State) -> list[str]:
    """Ready trees of the same conventions, those of the same commit first."""
    folder, key = folder_of(state.base_dir), state.record.key
    names = os.listdir(folder) if os.path.isdir(folder) else []
    signature = key.rpartition("-")[2]
    alike = [name for name in names if name.partition(".")[0].endswith(f"-{signature}")]
    alike.sort(key=lambda name: not name.startswith(f"{key}."))
    return [os.path.join(folder, name) for name in alike]


def _takes(ready: str, place: str) -> bool:
    """Whether it was us who got it."""
    try:
        os.rename(ready, place)
    except OSError:
        return False
    return True


def _hand_out(state: State) -> None:
    os.rename(f"{state.kit}/tree", state.tree)
    settle(state.index)
    made = read_made(state.made)
    if made.commit != state.record.base:
        _bring_to(state, made)
    point_to(state.entry, state.tree)


def _bring_to(state: State, made: Made) -> None:
    """Check out the difference between two commits."""
    git = state.git()
    os.rename(state.index, git.index)
    with slot(state.record.repository.common):
        git.run("read-tree", "-m", "-u", made.commit, state.record.base)
    os.rename(git.index, state.index)
    now = Made(state.record.base, made.conventions, tuple(notes_on(git)))
    write_bytes(state.made, msgspec.json.encode(now))
    git.remove()


def _has_room(state: State) -> bool:
    return len(_candidates(state)) < state.record.order.warm


def _take_back(state: State) -> None:
    """Reset the tree where nobody looks for it, and put it back whole."""
    tree = f"{state.kit}/tree"
    os.rename(state.tree, tree)
    git = TreeGit(state.path("git"), state.objects, tree)
    conventions = read_made(state.made).conventions
    git.prepare(conventions)
    os.rename(state.index, git.index)
    with slot(state.record.repository.common):
        reset(git, conventions.id_bytes)
    os.rename(git.index, state.index)
    _put_on_shelf(state)


def _put_on_shelf(state: State) -> None:
    os.makedirs(folder_of(state.base_dir), exist_ok=True)
    name = f"{state.record.key}.{secrets.token_hex(6)}"
    os.rename(state.kit, os.path.join(folder_of(state.base_dir), name))
