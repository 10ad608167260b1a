"""Which commit a task means when it is added: every machine has a HEAD and branches of its own."""

from collections.abc import Sequence
from functools import cache

from msgspec.structs import replace

from acode.model.task import Submission, WorkspaceKind
from acode.workspace.repository import find_repository

_IN_TREES = (None, WorkspaceKind.WORKTREE)


def pin(submissions: Sequence[Submission], project_root: str) -> list[Submission]:
    """Note the commit of every task that begins with one; what is not known yet stays a word."""
    repository = find_repository(project_root)
    if repository is None:
        return list(submissions)

    @cache
    def commit_of(word: str | None) -> str | None:
        return repository.head() if word is None else repository.commit_of(word)

    return [
        replace(one, spec=replace(one.spec, base_commit=commit_of(one.spec.base)))
        if one.spec.workspace in _IN_TREES
        else one
        for one in submissions
    ]
