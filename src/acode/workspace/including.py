"""Files that git ignores and a task needs nevertheless: `.env`, `node_modules`."""

import glob
import os
from collections.abc import Iterator

from acode.workspace.conventions import read_made
from acode.workspace.copying import copy_tree
from acode.workspace.files import write_text
from acode.workspace.state import State
from acode.workspace.treegit import TreeGit

INCLUDE_FILE = ".worktreeinclude"
_NEVER = frozenset((".git", ".agent"))


def bring_along(state: State) -> None:
    """Copy what the settings and the user's `.worktreeinclude` name; never over a file of git's."""
    top = state.record.repository.top
    paths = sorted({*_by_settings(state), *_by_file(state, top)})
    copied = [path for path in paths if _copy(top, state.tree, path)]
    if copied:
        write_text(state.copied, "".join(f"/{_escaped(path)}\n" for path in copied))


def _by_settings(state: State) -> Iterator[str]:
    """Patterns are relative to the project."""
    repository = state.record.repository
    root = os.path.join(repository.top, repository.inside)
    for pattern in state.record.order.copy_ignored:
        if os.path.isabs(pattern) or ".." in pattern.split("/"):
            continue
        for found in glob.glob(pattern, root_dir=root, recursive=True, include_hidden=True):
            yield os.path.normpath(os.path.join(repository.inside, found))


def _by_file(state: State, top: str) -> Iterator[str]:
    """What the file names and git ignores, both in the words of `.gitignore`."""
    include = f"{top}/{INCLUDE_FILE}"
    if not os.path.isfile(include):
        return
    git = TreeGit(state.path("git"), state.objects, top)
    git.prepare(read_made(state.made).conventions)
    os.symlink(os.path.join(state.record.repository.git_dir, "index"), git.index)
    words = ("ls-files", "-z", "-o", "-i", "--directory", f"--exclude-from={include}")
    named = git.run(*words)
    ignored = git.attempt("check-ignore", "-z", "--stdin", stdin=named)[1]
    git.remove()
    yield from (os.fsdecode(name).rstrip("/") for name in ignored.split(b"\0") if name)


def _copy(top: str, tree: str, path: str) -> bool:
    """Says whether there was anything to copy."""
    source, target = os.path.join(top, path), os.path.join(tree, path)
    if not _may_be_copied(top, tree, path) or os.path.lexists(target):
        return False
    if not os.path.lexists(source):
        return False
    os.makedirs(os.path.dirname(target), exist_ok=True)
    copy_tree(source, target)
    return True


def _may_be_copied(top: str, tree: str, path: str) -> bool:
    """No way out by a link, nothing of git's or ours, and no tree into itself."""
    if _NEVER & set(path.split("/")) or f"{tree}/".startswith(f"{os.path.join(top, path)}/"):
        return False
    folder = os.path.dirname(path)
    return all(_is_straight(root, folder) for root in (top, tree))


def _is_straight(root: str, folder: str) -> bool:
    real = os.path.normpath(os.path.join(os.path.realpath(root), folder))
    return os.path.realpath(os.path.join(root, folder)) == real


def _escaped(path: str) -> str:
    """A path in the words of `.gitignore`."""
    return "".join(f"\\{letter}" if letter in "\\*?[ !#" else letter for letter in path)
