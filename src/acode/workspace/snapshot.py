"""What a tree holds now, as a tree object. The task's own index is never believed."""

import os
import re
import stat
from collections.abc import Iterator

import msgspec

from acode.workspace.git import GitFailed
from acode.workspace.treegit import TreeGit

_MAX_REPAIRS = 50
_SHUT = re.compile(rb"(?:could not open directory|cannot lstat|failed to stat) '([^']+)'")


class Snapshot(msgspec.Struct, frozen=True):
    """The state of a tree."""

    tree: str
    left_out: tuple[str, ...]


def take(git: TreeGit, max_file_bytes: int, candidates: set[str] | None = None) -> Snapshot:
    """Write every file that is tracked or not ignored; git's index has to be as at the start.

    Candidates are the only paths that can differ from it; without them everything is looked at.
    """
    changed = Changed(git, max_file_bytes)
    among = None if candidates is None else _not_ignored(git, candidates)
    changed.sort_out(_listed(git) if among is None else among, "")
    changed.stage()
    tree = git.run("write-tree").decode().strip()
    return Snapshot(tree, tuple(sorted(set(changed.left_out))))


class Changed:
    """Paths that differ from the index, and what is to be done about each."""

    def __init__(self, git: TreeGit, max_file_bytes: int) -> None:
        self.left_out: list[str] = []
        self._git = git
        self._max_file_bytes = max_file_bytes
        self._gone: list[str] = []
        self._new: list[str] = []
        self._real: dict[str, bool] = {"": True}

    def sort_out(self, paths: set[str], prefix: str) -> None:
        """Decide for each path; what a nested repository holds is taken as plain files."""
        for path in sorted(paths):
            name = prefix + path
            if name.endswith("/"):
                self.sort_out(_listed(self._git.below(name)), name)
            else:
                self._decide(name)

    def _decide(self, path: str) -> None:
        full = os.path.join(self._git.tree, path)
        try:
            status = os.lstat(full) if self._is_inside(os.path.dirname(path)) else None
        except OSError:
            status = None
        if status is None:
            self._gone.append(path)
        elif stat.S_ISREG(status.st_mode) and status.st_size > self._max_file_bytes:
            self.left_out.append(_shown(path))
        elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
            self._new.append(path)
        elif stat.S_ISDIR(status.st_mode):
            # A submodule that was moved on, or a directory in the place of a file.
            is_module = os.path.lexists(os.path.join(full, ".git"))
            (self._new if is_module else self._gone).append(path)
        else:
            self._gone.append(path)
            self.left_out.append(_shown(path))

    def _is_inside(self, folder: str) -> bool:
        """Whether no part of the way is a link, which could lead anywhere."""
        if folder not in self._real:
            here = stat.S_ISDIR(os.lstat(os.path.join(self._git.tree, folder)).st_mode)
            self._real[folder] = here and self._is_inside(os.path.dirname(folder))
        return self._real[folder]

    def stage(self) -> None:
        """Bring the index up to date."""
        if self._gone:
            self._update("--force-remove", self._gone)
        for part in _parts(self._new):
            self._add(part)

    def _add(self, paths: list[str]) -> None:
        try:
            self._update("--add", paths)
        except GitFailed:
            for path in paths:
                _open_up(self._git.tree, path)
            self._add_what_can_be(paths)

    def _add_what_can_be(self, paths: list[str]) -> None:
        """One bad file must not cost the others: halve until it stands alone."""
        try:
            self._update("--add", paths)
        except GitFailed:
            if len(paths) == 1:
                self.left_out.append(_shown(paths[0]))
                return
            middle = len(paths) // 2
            self._add_what_can_be(paths[:middle])
            self._add_what_can_be(paths[middle:])

    def _update(self, how: str, paths: list[str]) -> None:
        names = b"".join(os.fsencode(path) + b"\0" for path in paths)
        self._git.run("update-index", "-z", how, "--replace", "--stdin", stdin=names)


def _parts(paths: list[str]) -> Iterator[list[str]]:
    for begin in range(0, len(paths), 10_000):
        yield paths[begin : begin + 10_000]


def _not_ignored(git: TreeGit, candidates: set[str]) -> set[str] | None:
    """Candidates without those that git ignores; None if git cannot tell."""
    if not candidates:
        return candidates
    names = b"".join(os.fsencode(path) + b"\0" for path in candidates)
    code, ignored, _ = git.attempt("check-ignore", "-z", "--stdin", stdin=names)
    if code not in (0, 1):
        return None
    return candidates - {os.fsdecode(name) for name in ignored.split(b"\0")}


def _listed(git: TreeGit) -> set[str]:
    """Paths that are changed, deleted, or new and not ignored. Nested repositories end in `/`."""
    for _ in range(_MAX_REPAIRS):
        code, output, complaint = git.attempt("ls-files", "-z", "-m", "-o", "--exclude-standard")
        shut = _SHUT.findall(complaint)
        if code != 0:
            raise GitFailed(f"git ls-files: {complaint.decode(errors='replace').strip()}")
        opened = [_open_up(git.tree, os.fsdecode(name)) for name in shut]
        if not any(opened):
            break
    return {os.fsdecode(name) for name in output.split(b"\0") if name}


def _open_up(tree: str, path: str) -> bool:
    """Make a path and the directories on the way readable; says whether any was not."""
    changed = False
    parts = path.rstrip("/").split("/")
    for end in range(1, len(parts) + 1):
        changed |= _make_readable(os.path.join(tree, *parts[:end]))
    return changed


def _make_readable(path: str) -> bool:
    try:
        mode = os.lstat(path).st_mode
        wanted = 0o700 if stat.S_ISDIR(mode) else 0o400
        if stat.S_ISLNK(mode) or mode & wanted == wanted:
            return False
        os.chmod(path, stat.S_IMODE(mode) | wanted)
    except OSError:
        return False
    return True


def _shown(path: str) -> str:
    return os.fsencode(path).decode(errors="replace")
