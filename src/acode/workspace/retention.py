"""Branches of tasks that nobody needs any more."""

from collections.abc import Callable

from acode.workspace.git import GitFailed
from acode.workspace.repository import find_repository

BRANCHES = "refs/heads/acode/"


def forget_branches(project_root: str, before: int, is_over: Callable[[str], bool]) -> int:
    """Delete branches of tasks that are over and whose last commit is older; says how many.

    A branch that is checked out somewhere stays: git refuses to delete it.
    """
    repository = find_repository(project_root)
    if repository is None:
        return 0
    form = "--format=%(refname) %(committerdate:unix)"
    gone = 0
    for line in repository.run("for-each-ref", form, BRANCHES).splitlines():
        name, _, seconds = line.rpartition(" ")
        task_id = name.removeprefix(BRANCHES)
        if int(seconds) * 1000 >= before or not is_over(task_id):
            continue
        try:
            repository.run("branch", "--quiet", "-D", f"acode/{task_id}")
        except GitFailed:
            continue
        gone += 1
    return gone
