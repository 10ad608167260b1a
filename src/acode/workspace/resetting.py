"""Making a used tree hold what its index says and nothing else, with proof."""

import os
import stat

from acode.errors import WorkspaceFailed
from acode.workspace.index import Look, look_at, read_index
from acode.workspace.removal import remove
from acode.workspace.treegit import TreeGit


class NotClean(WorkspaceFailed):
    """A tree holds something that may be a task's."""


def reset(git: TreeGit, id_bytes: int) -> None:
    """Remove what is not tracked and write anew what was touched; raises if that fails.

    A file that was touched in any way is written anew, even if its content is the same: its mode
    and its attributes could be a message to the next task.
    """
    touched = _Inspection(git.tree, read_index(git.index, id_bytes)).touched()
    if not touched:
        return
    for name in touched:
        remove(os.path.join(git.tree, name))
    names = b"".join(os.fsencode(name) + b"\0" for name in touched)
    git.run("checkout-index", "-z", "--stdin", "-f", "-u", stdin=names)
    if _Inspection(git.tree, read_index(git.index, id_bytes)).touched():
        raise NotClean(f"{git.tree} cannot be reset")


class _Inspection:
    """One walk through a tree beside its index."""

    def __init__(self, tree: str, index: dict[str, Look | None]) -> None:
        self._tree = tree
        self._index = index
        self._folders = _folders(index)
        self._seen: set[str] = set()
        self._touched: list[str] = []
        self._waiting = [""]
        # As the directory was made that the tree lies in, so are the tree's own.
        self._mode = stat.S_IMODE(os.lstat(os.path.dirname(tree)).st_mode)

    def touched(self) -> list[str]:
        """Files to be written anew; what nobody tracks is removed on the way."""
        while self._waiting:
            folder = self._waiting.pop()
            path = os.path.join(self._tree, folder)
            self._check_folder(path)
            with os.scandir(path) as entries:
                for entry in list(entries):
                    self._look(f"{folder}/{entry.name}" if folder else entry.name, entry)
        return self._touched + [name for name in self._index if name not in self._seen]

    def _look(self, name: str, entry: os.DirEntry[str]) -> None:
        is_folder = entry.is_dir(follow_symlinks=False)
        if is_folder and name in self._folders:
            self._waiting.append(name)
        elif name not in self._index or is_folder != (self._index[name] is None):
            _remove_wholly(entry.path)
        else:
            self._seen.add(name)
            if is_folder:
                self._check_folder(entry.path)
                _remove_wholly_inside(entry.path)
            elif look_at(entry.stat(follow_symlinks=False)) != self._index[name]:
                self._touched.append(name)

    def _check_folder(self, path: str) -> None:
        status = os.lstat(path)
        marks = [name for name in os.listxattr(path) if not name.startswith("security.")]
        as_made = (self._mode, os.geteuid())
        if marks or (stat.S_IMODE(status.st_mode), status.st_uid) != as_made:
            raise NotClean(f"{path} was changed")


def _folders(index: dict[str, Look | None]) -> set[str]:
    folders = {""}
    for name in index:
        folder = name.rpartition("/")[0]
        while folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return folders


def _remove_wholly(path: str) -> None:
    remove(path)
    if os.path.lexists(path):
        raise NotClean(f"{path} cannot be removed")


def _remove_wholly_inside(folder: str) -> None:
    for name in os.listdir(folder):
        _remove_wholly(os.path.join(folder, name))
