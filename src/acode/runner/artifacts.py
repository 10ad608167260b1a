"""What a task leaves on purpose: files moved or copied to its artifacts directory."""

import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import translate
from typing import NamedTuple

_MAGIC = re.compile(r"[*?[]")


class Gathered(NamedTuple):
    """Names of the files that were kept, and why others were not."""

    names: tuple[str, ...]
    problems: tuple[str, ...]


def keep_staged(staged: str, final: str) -> tuple[str, ...]:
    """Move everything to its place over what earlier attempts left; names of the files."""
    if os.path.islink(staged):
        return ()  # the task has put it there, and it could lead anywhere
    names = []
    for source in _files_below(staged):
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
    for name in _found(workspace, pattern):
        path = os.path.join(workspace, name)
        if os.path.isdir(path) and not os.path.islink(path):
            yield from (os.path.relpath(file, workspace) for file in _files_below(path))
        else:
            yield os.path.normpath(name)


def _found(workspace: str, pattern: str) -> Iterator[str]:
    """What fits a pattern. Who looks for names follows no link: that could go round for ever."""
    if os.path.isabs(pattern):
        yield pattern
        return
    waiting = [("", [part for part in pattern.split("/") if part])]
    while waiting:
        folder, (part, *rest) = waiting.pop()
        if part == "**":  # any number of folders, none among them
            waiting.append((folder, rest or ["*"]))
        elif not _MAGIC.search(part):
            if rest:
                waiting.append((os.path.join(folder, part), rest))
            elif os.path.lexists(os.path.join(workspace, folder, part)):
                yield os.path.join(folder, part)
            continue
        fits = re.compile("" if part == "**" else translate(part)).match
        for entry in _entries(os.path.join(workspace, folder)):
            if not fits(entry.name):
                continue
            name = os.path.join(folder, entry.name)
            if part != "**" and not rest:
                yield name
            elif entry.is_dir(follow_symlinks=False):
                waiting.append((name, [part, *rest] if part == "**" else rest))


def _files_below(directory: str) -> Iterator[str]:
    """Everything but directories, however deep they are."""
    waiting = [directory]
    while waiting:
        for entry in _entries(waiting.pop()):
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            else:
                yield entry.path


def _entries(directory: str) -> list[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(directory) as entries:
        return list(entries)
    return []


def _size_inside(workspace: str, name: str) -> int | None:
    """How large a file is; None for what is no file, or only leads out of the workspace."""
    real = os.path.realpath(os.path.join(workspace, name))
    if os.path.commonpath((real, os.path.realpath(workspace))) != os.path.realpath(workspace):
        return None
    if ".git" in name.split(os.sep):
        return None
    try:
        status = os.stat(real)
    except OSError:  # a link that leads nowhere
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _copy(source: str, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.lexists(target):
        os.unlink(target)
    # Opened without following a link that may have taken the file's place meanwhile.
    descriptor = os.open(os.path.realpath(source), os.O_RDONLY | os.O_NOFOLLOW)
    with open(descriptor, "rb") as original, open(target, "xb") as copy:
        shutil.copyfileobj(original, copy, 1 << 20)
