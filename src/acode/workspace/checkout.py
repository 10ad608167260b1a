"""Writing the files of a commit into an empty directory."""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from acode.clock import SystemClock
from acode.errors import DiskFull
from acode.workspace.conventions import Made, read_conventions
from acode.workspace.files import read_text, write_bytes
from acode.workspace.git import GitFailed
from acode.workspace.repository import Repository
from acode.workspace.treegit import TreeGit

_LAG_NS = 30_000_000
"""The kernel's stamps on files lag behind the clock, by no more than this."""
_SCARCE_BYTES = 16 << 20
_SECOND_NS = 1_000_000_000
_SETTLED_NS = 1
"""So many nanoseconds after the full second no kernel dates a file by itself."""
_FILTER = re.compile(r"(?<!\S)filter=([\w.-]+)")
_MODULE = re.compile(r"^\s*path\s*=\s*(\S.*?)\s*$", re.MULTILINE)


def check_out(repository: Repository, commit: str, tree: str, directory: str) -> Made:
    """Fill a tree; leaves `index` and `made` in the directory."""
    conventions = read_conventions(repository)
    git = TreeGit(os.path.join(directory, "git"), os.path.join(repository.common, "objects"), tree)
    git.prepare(conventions)
    os.makedirs(tree, exist_ok=True)
    with slot(repository.common):
        _write_files(git, commit)
    made = Made(commit, conventions, tuple(notes_on(git)))
    os.replace(git.index, os.path.join(directory, "index"))
    write_bytes(os.path.join(directory, "made"), msgspec.json.encode(made))
    git.remove()
    return made


def _write_files(git: TreeGit, commit: str) -> None:
    try:
        git.run("read-tree", "-u", "--reset", commit)
    except GitFailed as error:
        # Git names the file that it could not write, but not always the reason.
        room = os.statvfs(git.tree)
        if room.f_bavail * room.f_frsize < _SCARCE_BYTES or (room.f_files and not room.f_favail):
            raise DiskFull(f"no room for a checkout: {error}") from error
        raise


def settle(index: str) -> bool:
    """Date an index later than its files, if that is the truth; says whether it is.

    Git compares times by seconds. Files that are as young as their index it reads again to see
    whether they changed: right, but slow. An index whose files all belong to seconds that are over
    needs no such care, because whatever a task touches from now on is younger.
    """
    written = os.stat(index).st_mtime_ns
    if written % _SECOND_NS == _SETTLED_NS:
        return True
    second = SystemClock().now() // 1000
    if second <= (written + _LAG_NS) // _SECOND_NS:
        return False
    os.utime(index, ns=(written, second * _SECOND_NS + _SETTLED_NS))
    return True


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


def notes_on(git: TreeGit) -> Iterator[str]:
    """What a user should know about a tree."""
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
    return "" if os.path.islink(path) else read_text(path)
