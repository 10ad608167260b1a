"""The broom: a short-lived process that puts away what tasks left in repository and project.

It runs git, which may take its time and whose children the daemon must not reap.
"""

import asyncio
import os
import sys
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from acode.clock import SystemClock
from acode.errors import AcodeError, TaskNotFound
from acode.model.state import FINISHED, Status
from acode.model.task import Task
from acode.project import Project
from acode.runner.identity import is_alive
from acode.store.opening import open_store
from acode.store.sql.store import SqlStore
from acode.workspace.delivery import Parcel, forget, try_once, undelivered
from acode.workspace.removal import remove
from acode.workspace.retention import forget_branches
from acode.workspace.sweep import sweep

DAY_MS = 86_400_000
STORE_URL = "ACODE_STORE__URL"


class Errand(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be put away. Given as JSON on the command line."""

    root: str
    worktrees: str
    keep_branch_days: float = 0
    keep_artifact_days: float = 0
    undelivered: str = ""
    """Where the notes are about branches that are still to be pushed."""
    store_url: str | None = None
    """Only inside of this process: it may hold a password, and everybody sees a command line."""


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """What was put away."""

    trees: int = 0
    saved: tuple[str, ...] = ()
    """Refs under which work of orphaned trees was saved."""
    branches: int = 0
    artifacts: int = 0
    delivered: tuple[str, ...] = ()
    """Branches that have reached their remote at last."""
    problems: tuple[str, ...] = ()


def sweep_up(errand: Errand, now: int) -> Swept:
    """Everything; what goes wrong with one thing does not keep the others from going."""
    orphans = sweep(errand.root, errand.worktrees, is_alive)
    problems = list(orphans.problems)
    branches = artifacts = 0
    try:
        if errand.keep_branch_days:
            before = now - round(errand.keep_branch_days * DAY_MS)
            branches = forget_branches(errand.root, before, _judge(errand, before))
        if errand.keep_artifact_days:
            before = now - round(errand.keep_artifact_days * DAY_MS)
            artifacts = _forget_artifacts(errand, before)
    except (AcodeError, OSError) as error:
        problems.append(str(error))
    delivered, undeliverable = _deliver(errand)
    problems += undeliverable
    return Swept(
        trees=orphans.removed,
        saved=orphans.saved,
        branches=branches,
        artifacts=artifacts,
        delivered=delivered,
        problems=tuple(problems),
    )


def _deliver(errand: Errand) -> tuple[tuple[str, ...], list[str]]:
    """Push what could not be pushed when it was made; what was, and what keeps the rest."""
    delivered, problems = [], []
    for note, parcel in undelivered(errand.undelivered):
        standing = _standing_of(errand, parcel)
        if standing is Status.COMPLETED:
            push = try_once(parcel, errand.root)
            if push.problem is not None:
                problems.append(f"{parcel.branch} is not pushed to {push.remote}: {push.problem}")
                continue
            asyncio.run(_store(errand).pushed(parcel.task_id, parcel.number, push))
            delivered.append(parcel.branch)
        if standing is not Status.RUNNING:  # its worker tries right now
            forget(note)
    return tuple(delivered), problems


def _standing_of(errand: Errand, parcel: Parcel) -> Status | None:
    """Where the task of a branch stands; None if the branch is not what the task came to."""
    try:
        task: Task = asyncio.run(_store(errand).get(parcel.task_id))
    except TaskNotFound:
        return None
    return task.status if task.last_attempt == parcel.number else None


def _forget_artifacts(errand: Errand, before: int) -> int:
    directory, is_over = Project(errand.root).all_artifacts_dir, _judge(errand, before)
    gone = 0
    for entry in os.scandir(directory) if os.path.isdir(directory) else ():
        if entry.stat(follow_symlinks=False).st_mtime * 1000 < before and is_over(entry.name):
            remove(entry.path)
            gone += 1
    return gone


def _judge(errand: Errand, before: int) -> Callable[[str], bool]:
    """Whether a task was over by then; one that nobody knows is."""
    store = _store(errand)

    def is_over(task_id: str) -> bool:
        try:
            task: Task = asyncio.run(store.get(task_id))
        except TaskNotFound:
            return True
        return task.status in FINISHED and (task.completed_at or before) < before

    return is_over


def _store(errand: Errand) -> SqlStore:
    file = Project(errand.root).queue_db
    return open_store(errand.store_url, file, SystemClock(), 0, grouped=False)


def main(words: str) -> None:
    """Do the errand and say what was done."""
    # Taken away: git, which runs below, has no business with it.
    url = os.environ.pop(STORE_URL, None) or None
    errand = replace(msgspec.json.decode(words, type=Errand), store_url=url)
    swept = sweep_up(errand, SystemClock().now())
    sys.stdout.write(msgspec.json.encode(swept).decode() + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
