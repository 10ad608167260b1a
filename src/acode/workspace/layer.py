"""What the layer of an overlay says about changes, without looking at the rest of the tree.

A task that touches ten files of fifty thousand leaves ten files in its layer. Whatever cannot be
told from the layer alone is not guessed: then the answer is None, and git looks at everything.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress

_OPENED = (".gitignore", ".gitattributes")
_XATTRS = ("trusted.overlay.", "user.overlay.")


def changed_paths(upper: str, lower: str) -> set[str] | None:
    """Every path that may differ from the lower tree; perhaps more, never fewer."""
    try:
        return set(_walk(upper, lower))
    except (OSError, _Untellable):
        return None


def disarm(layer: str, tree: str) -> None:
    """Remove what git would wait at for ever: it opens these files wherever it finds them.

    A layer shows where the tree was changed; a tree without one is its own.
    """
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        with suppress(OSError), os.scandir(os.path.join(layer, folder)) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{folder}/{entry.name}" if folder else entry.name)
                elif entry.name in _OPENED and not _is_plain(entry):
                    with suppress(OSError):  # in a layer, a file that is gone looks like a device
                        os.unlink(os.path.join(tree, folder, entry.name))


class _Untellable(Exception):
    """The layer refers to something elsewhere."""


def _walk(upper: str, lower: str) -> Iterator[str]:
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        with os.scandir(os.path.join(upper, folder)) as entries:
            for entry in entries:
                if entry.name == ".git":
                    continue
                path = f"{folder}/{entry.name}" if folder else entry.name
                below = _kind(os.path.join(lower, path))
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                    hides = _hides_lower(entry.path)
                    if below == "directory" and hides:
                        yield from _files_below(lower, path)
                    elif below == "file":
                        yield path
                elif below == "directory":
                    yield path
                    yield from _files_below(lower, path)
                elif below or _is_plain(entry):
                    yield path


def _is_plain(entry: os.DirEntry[str]) -> bool:
    """Pipes and sockets are of no interest, if they took nothing's place."""
    return entry.is_file(follow_symlinks=False) or entry.is_symlink()


def _kind(path: str) -> str:
    try:
        return "directory" if stat.S_ISDIR(os.lstat(path).st_mode) else "file"
    except (FileNotFoundError, NotADirectoryError):
        return ""


def _hides_lower(directory: str) -> bool:
    """Whether a directory replaces the one below it instead of adding to it."""
    names = os.listxattr(directory)
    if any(f"{prefix}redirect" in names for prefix in _XATTRS):
        raise _Untellable(directory)
    return any(f"{prefix}opaque" in names for prefix in _XATTRS)


def _files_below(lower: str, path: str) -> Iterator[str]:
    for folder, folders, files in os.walk(os.path.join(lower, path)):
        inside = os.path.relpath(folder, lower)
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        yield from (f"{inside}/{name}" for name in (*files, *links))
