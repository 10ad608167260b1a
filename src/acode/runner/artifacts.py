"""What a task leaves on purpose: files moved or copied to its artifacts directory."""

import glob
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Gathered(NamedTuple):
    """Names of the files that were kept, and why others were not."""

    names: tuple[str, ...]
    problems: tuple[str, ...]


def keep_staged(staged: str, final: str) -> tuple[str, ...]:
    """Move everything to its place over what earlier attempts left; names of the files."""
    names = []
    for directory, _, files in os.walk(staged):
        for file in files:
            source = os.path.join(directory, file)
            if not stat.S_ISREG(os.lstat(source).st_mode):
                continue  # a link could lead anywhere
            name = os.path.relpath(source, staged)
            os.makedirs(os.path.dirname(os.path.join(final, name)), exist_ok=True)
            shutil.move(source, os.path.join(final, name))
            names.append(name)
    return tuple(sorted(names))


def gather(workspace: str, patterns: Iterable[str], final: str, max_bytes: int) -> Gathered:
    """Copy the files of the workspace that fit a pattern, as long as there is room for them."""
    names, problems, room = [], [], max_bytes
    for name in sorted({name for pattern in patterns for name in _matches(workspace, pattern)}):
        size = _size_inside(workspace, name)
        if size is None:
            problems.append(f"artifact {name} is not a file of the workspace; it is left out")
        elif size > room:
            problems.append(f"artifact {name} is too large ({size} bytes); it is left out")
        else:
            room -= size
            _copy(os.path.join(workspace, name), os.path.join(final, name))
            names.append(name)
    return Gathered(tuple(names), tuple(problems))


def _matches(workspace: str, pattern: str) -> Iterator[str]:
    """Names of files; a directory stands for everything in it."""
    for name in glob.iglob(pattern, root_dir=workspace, recursive=True, include_hidden=True):
        path = os.path.join(workspace, name)
        if os.path.isdir(path) and not os.path.islink(path):
            for directory, _, files in os.walk(path):
                yield from (os.path.relpath(f"{directory}/{file}", workspace) for file in files)
        else:
            yield os.path.normpath(name)


def _size_inside(workspace: str, name: str) -> int | None:
    """How large a file is; None for what is no file, or only leads out of the workspace."""
    real = os.path.realpath(os.path.join(workspace, name))
    if os.path.commonpath((real, os.path.realpath(workspace))) != os.path.realpath(workspace):
        return None
    if ".git" in name.split(os.sep):
        return None
    status = os.stat(real)
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _copy(source: str, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.lexists(target):
        os.unlink(target)
    # Opened without following a link that may have taken the file's place meanwhile.
    descriptor = os.open(os.path.realpath(source), os.O_RDONLY | os.O_NOFOLLOW)
    with open(descriptor, "rb") as original, open(target, "xb") as copy:
        shutil.copyfileobj(original, copy, 1 << 20)
