"""Git for one tree, blind to everything that a task could have written about git."""

import os

from acode.workspace.conventions import Conventions
from acode.workspace.files import write_text
from acode.workspace.git import NOBODYS_SETTINGS, attempt, run
from acode.workspace.removal import remove


class TreeGit:
    """A private git directory beside the real one: same objects, our settings, no hooks.

    What lies at `.git` in the tree, in the worktree's entry or in the repository's settings is
    never read, so a task cannot redirect it.
    """

    def __init__(self, directory: str, objects: str, tree: str, index: str = "index") -> None:
        self.tree = tree
        self.index = os.path.join(directory, index)
        self._directory = directory
        self._objects = objects
        self._variables = {
            "GIT_DIR": directory,
            "GIT_COMMON_DIR": directory,
            "GIT_WORK_TREE": tree,
            "GIT_OBJECT_DIRECTORY": objects,
            "GIT_INDEX_FILE": self.index,
        } | NOBODYS_SETTINGS

    def prepare(self, conventions: Conventions, also_ignored: str = "") -> None:
        """Make the private directory anew, as if no task had ever been near it."""
        remove(self._directory)
        for name in ("objects", "refs", "info"):
            os.makedirs(os.path.join(self._directory, name))
        self._write("HEAD", "ref: refs/heads/none\n")
        self._write("config", conventions.config())
        self._write("info/exclude", f"{conventions.exclude}\n{also_ignored}")
        self._write("info/attributes", conventions.attributes)

    def _write(self, name: str, text: str) -> None:
        write_text(os.path.join(self._directory, name), text)

    def run(self, *arguments: str, stdin: bytes = b"", stdout: int | None = None) -> bytes:
        """Run git on the tree."""
        return run(("-C", self.tree, *arguments), self._variables, stdin=stdin, stdout=stdout)

    def attempt(self, *arguments: str, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
        """Run git on the tree; its exit code, its output, and what it said besides."""
        return attempt(("-C", self.tree, *arguments), self._variables, stdin=stdin)

    def below(self, folder: str) -> "TreeGit":
        """The same for a directory of the tree as if it were a tree by itself, nothing tracked."""
        return TreeGit(
            self._directory, self._objects, os.path.join(self.tree, folder), index="no-index"
        )

    def remove(self) -> None:
        """The private directory is not needed any more."""
        remove(self._directory)
