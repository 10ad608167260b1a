"""From an order to a workspace."""

import errno
import os
import secrets
from collections.abc import Iterator

from acode.errors import AcodeError, DiskFull, InvalidTask, WorkspaceFailed
from acode.workspace.base import Order, Workspace
from acode.workspace.conventions import signature
from acode.workspace.entry import Draft, new_name, register
from acode.workspace.files import ensure_directory
from acode.workspace.including import bring_along
from acode.workspace.overlay import Overlay, works
from acode.workspace.plain import Plain, Source
from acode.workspace.remote import base_commit
from acode.workspace.repository import Repository, find_repository
from acode.workspace.scratch import InProject, Scratch
from acode.workspace.state import Record, State, directory_of
from acode.workspace.warm import Warm
from acode.workspace.worktree import Worktree, notes_of

SOURCES: dict[str, Source] = {source.name: source for source in (Plain(), Warm(), Overlay())}


def open_workspace(order: Order) -> Workspace:
    """Make what was ordered. Raises InvalidTask, DiskFull or WorkspaceFailed."""
    try:
        return _open(order)
    except OSError as error:
        raise refusal(error) from error


def refusal(error: OSError) -> AcodeError:
    """What the operating system's refusal means to a user."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"no room for a workspace: {error}")
    return WorkspaceFailed(f"the workspace cannot be made: {error}")


def _open(order: Order) -> Workspace:
    if order.kind == "project":
        return InProject(order)
    if order.kind == "scratch":
        return Scratch(order, free_place(order))
    repository = find_repository(order.project_root)
    if repository is None:
        return _without_worktree(order, f"{order.project_root} is in no git repository")
    word = order.commit or order.base
    base = repository.head() if word is None else base_commit(repository, word, order.remote)
    if base is None:
        return _without_worktree(order, f"{repository.top} has no commit yet")
    return _open_worktree(order, repository, base)


def _without_worktree(order: Order, why: str) -> Scratch:
    if order.kind == "worktree" or order.base is not None:
        raise InvalidTask(
            f"no worktree can be made: {why}",
            hint="run git init and make a first commit, or use --workspace scratch",
        )
    return Scratch(order, free_place(order), (f"{why}: a scratch directory is used",))


def _open_worktree(order: Order, repository: Repository, base: str) -> Worktree:
    source, notes = choose(order)
    record = Record(
        order=order,
        strategy=source.name,
        place=free_place(order),
        repository=repository,
        entry=new_name(order.task_id),
        base=base,
        key=f"{base}-{signature(repository)}",
    )
    state = State(record)
    state.write()
    try:
        source.fill(state)
        bring_along(state)
        if repository.inside:
            ensure_directory(os.path.join(state.tree, repository.inside))
        register(repository, state.entry, state.tree, base, Draft(state.index, state.spare))
        state.mark_opened()
    except BaseException:
        source.release(state, reuse=False)
        raise
    return Worktree(state, source, (*notes, *notes_of(state)))


def choose(order: Order) -> tuple[Source, tuple[str, ...]]:
    """Where the tree comes from, and what to say if it is not as was asked for."""
    wanted, notes = order.strategy, []
    if wanted in ("auto", "overlay") and not order.keep:
        if works(os.path.dirname(order.trees), order.owner.boot_id):
            return SOURCES["overlay"], ()
        if wanted == "overlay":
            notes.append("overlay mounts do not work here: ready trees are used")
    if wanted == "plain" or order.warm == 0:
        return SOURCES["plain"], tuple(notes)
    return SOURCES["warm"], tuple(notes)


def free_place(order: Order) -> str:
    """Where the workspace goes; a kept one of an earlier attempt stays as it is."""
    return next(place for place in _places(order) if _is_free(order, place))


def _places(order: Order) -> Iterator[str]:
    place = f"{order.trees}/{order.task_id}"
    yield place
    yield f"{place}-{order.number}"
    while True:
        yield f"{place}-{order.number}-{secrets.token_hex(2)}"


def _is_free(order: Order, place: str) -> bool:
    beside = directory_of(order.trees, os.path.basename(place))
    return not os.path.lexists(place) and not os.path.lexists(beside)
