"""The user's repository: where it is, and which commit a word means. Never written to here."""

import os
import re

import msgspec

from acode.workspace.files import read_bytes
from acode.workspace.git import NOBODYS_SETTINGS, attempt, run

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class Repository(msgspec.Struct, frozen=True):
    """One repository, seen from a project in it."""

    top: str
    """The user's checkout."""
    git_dir: str
    common: str
    """What all worktrees share: objects, refs, settings."""
    inside: str
    """Where the project lies below the top level; empty if it is the top level."""

    @property
    def variables(self) -> dict[str, str]:
        """For commands that look at commits and refs; none of them looks at files."""
        return {"GIT_DIR": self.common, "GIT_COMMON_DIR": self.common} | NOBODYS_SETTINGS

    def run(self, *arguments: str, stdin: bytes = b"") -> str:
        """Run git on commits and refs; its output without the last newline."""
        words = ("-C", self.common, "-c", "core.bare=true", *arguments)
        return run(words, self.variables, stdin=stdin).decode().removesuffix("\n")

    def succeeds(self, *arguments: str) -> bool:
        """Whether git says yes."""
        words = ("-C", self.common, "-c", "core.bare=true", *arguments)
        return attempt(words, self.variables)[0] == 0

    def head(self) -> str | None:
        """The commit of the user's checkout; None if there is none yet."""
        return self._quick_head() or self.commit_of("HEAD")

    def commit_of(self, word: str) -> str | None:
        """The commit that a word means; None if it means none."""
        own = {"GIT_DIR": self.git_dir, "GIT_COMMON_DIR": self.common}
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{word}^{{commit}}")
        code, output, _ = attempt(("-C", self.common, *words), own)
        found = output.decode(errors="replace").split()
        return found[-1] if code == 0 and found and _COMMIT.fullmatch(found[-1]) else None

    def _quick_head(self) -> str | None:
        """The same by reading the files, where they are as they mostly are."""
        head = _first_line(f"{self.git_dir}/HEAD")
        if head.startswith("ref: refs/") and ".." not in head:
            head = _first_line(f"{self.common}/{head.removeprefix('ref: ')}")
        return head if _COMMIT.fullmatch(head) else None


def find_repository(project_root: str) -> Repository | None:
    """The repository that a directory lies in."""
    root = os.path.realpath(project_root)
    here = root
    while True:
        git_dir = _git_dir(here)
        if git_dir is not None:
            inside = root[len(here) :].lstrip("/")
            return Repository(here, git_dir, _common(git_dir), inside)
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above


def is_commit_id(text: str) -> bool:
    """Whether this is a whole name of an object, SHA-1 or SHA-256."""
    return _COMMIT.fullmatch(text) is not None


def _git_dir(directory: str) -> str | None:
    path = f"{directory}/.git"
    if os.path.isdir(path):
        return path if os.path.exists(f"{path}/HEAD") else None
    line = _first_line(path)
    if not line.startswith("gitdir: "):
        return None
    found = os.path.normpath(os.path.join(directory, line.removeprefix("gitdir: ")))
    return found if os.path.isdir(found) else None


def _common(git_dir: str) -> str:
    line = _first_line(f"{git_dir}/commondir")
    return os.path.normpath(os.path.join(git_dir, line)) if line else git_dir


def _first_line(path: str) -> str:
    try:
        return os.fsdecode(read_bytes(path)).partition("\n")[0].strip()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ""
