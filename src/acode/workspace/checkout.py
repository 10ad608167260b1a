"""Writing the files of a commit into an empty directory."""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from acode.workspace.conventions import Made, read_conventions
from acode.workspace.repository import Repository
from acode.workspace.treegit import TreeGit

_FILTER = re.compile(r"(?<!\S)filter=([\w.-]+)")
_MODULE = re.compile(r"^\s*path\s*=\s*(\S.*?)\s*$", re.MULTILINE)


def check_out(repository: Repository, commit: str, tree: str, directory: str) -> Made:
    """Fill a tree; leaves `index` and `made` in the directory."""
    conventions = read_conventions(repository)
    git = TreeGit(os.path.join(directory, "git"), os.path.join(repository.common, "objects"), tree)
    git.prepare(conventions)
    os.makedirs(tree, exist_ok=True)
    with slot(repository.common):
        git.run("read-tree", "-u", "--reset", commit)
    made = Made(commit, conventions, tuple(_notes(git)))
    os.replace(git.index, os.path.join(directory, "index"))
    with open(os.path.join(directory, "made"), "wb") as file:
        file.write(msgspec.json.encode(made))
    git.remove()
    return made


@contextmanager
def slot(common: str) -> Iterator[None]:
    """Wait until fewer checkouts run in this repository than there are cores."""
    place = os.path.join(common, "acode")
    os.makedirs(place, exist_ok=True)
    paths = [os.path.join(place, f"slot-{number}") for number in range(os.cpu_count() or 1)]
    files = [open(path, "ab") for path in paths]  # noqa: SIM115
    try:
        if not any(_takes(file.fileno()) for file in files):
            fcntl.flock(files[os.getpid() % len(files)], fcntl.LOCK_EX)
        yield
    finally:
        for file in files:
            file.close()


def _takes(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _notes(git: TreeGit) -> Iterator[str]:
    modules = _MODULE.findall(_content(git.tree, ".gitmodules"))
    if modules:
        yield f"submodules are not checked out: {', '.join(modules)}"
    listed = git.run("ls-files", "-z", "--", ".gitattributes", "**/.gitattributes")
    files = [os.fsdecode(name) for name in listed.split(b"\0") if name]
    filters = {name for file in files for name in _FILTER.findall(_content(git.tree, file))}
    if "lfs" in filters:
        yield "large files (LFS) are pointers until the task runs git lfs pull"
    others = sorted(filters - {"lfs"})
    if others:
        yield f"filters are not run on files: {', '.join(others)}"


def _content(tree: str, name: str) -> str:
    path = os.path.join(tree, name)
    if os.path.islink(path):
        return ""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20)
    except OSError:
        return ""
