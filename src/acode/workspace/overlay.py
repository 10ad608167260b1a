"""Copy on write: a tree is a mount over a shared checkout, with the changes in a layer of its own.

The mount is in a namespace of the calling process: nobody else sees it, and it ends with the
process. The layer with the changes is an ordinary directory, so nothing is lost with the mount.
"""

import os
from contextlib import suppress
from functools import cache

from acode.errors import WorkspaceFailed
from acode.workspace.bases import FOLDER, Base, hold, hold_existing
from acode.workspace.entry import point_to, unregister
from acode.workspace.files import ensure_directory, write_bytes
from acode.workspace.layer import changed_paths
from acode.workspace.mounts import enter_namespace, mount_overlay, mounts_below, unmount
from acode.workspace.removal import remove
from acode.workspace.state import State


class Overlay:
    """Mounts, and throws the layer away."""

    name = "overlay"

    def __init__(self) -> None:
        self._held: dict[str, tuple[Base, int]] = {}
        """The bases that this process holds, and the devices that are the mounts over them."""

    def fill(self, state: State) -> None:
        """Mount over the shared checkout, which is made if this is the first need of it."""
        base = hold(state)
        try:
            base.furnish(state.kit)
            os.mkdir(state.tree)
            point_to(state.entry, state.upper)
            self._mount(state, base)
        except BaseException:
            base.let_go()
            raise

    def _mount(self, state: State, base: Base) -> None:
        enter_namespace()
        mount_overlay(base.tree, state.upper, state.work, state.tree)
        self._held[state.directory] = base, os.stat(state.tree).st_dev

    def attach(self, state: State) -> None:
        """Mount again what a crash, or a task with all rights, has unmounted."""
        base, device = self._held.get(state.directory, (None, 0))
        if base is not None and _device(state.tree) == device:
            return
        self._unmount(state)
        if os.path.islink(state.tree):
            remove(state.tree)  # what is mounted there would hide what it leads to
        if not os.path.isdir(state.upper):
            raise WorkspaceFailed(f"{state.upper} is gone, and the changes with it")
        remove(state.work)
        for directory in (state.work, state.tree):
            os.makedirs(directory, exist_ok=True)
        self._mount(state, base or hold_existing(state))

    def layer(self, state: State) -> str:
        """It lies apart from the shared checkout."""
        return state.upper

    def changed(self, state: State) -> set[str] | None:
        """What lies in the layer. Submodules are git's to judge."""
        base, _ = self._held[state.directory]
        if os.path.lexists(os.path.join(base.tree, ".gitmodules")):
            return None
        return changed_paths(state.upper, base.tree)

    def _unmount(self, state: State) -> None:
        for point in mounts_below(state.tree):
            unmount(point)

    def release(self, state: State, *, reuse: bool) -> None:  # noqa: ARG002
        """Unmount, and throw the layer away."""
        self._unmount(state)
        unregister(state.entry)
        try:
            os.rmdir(state.tree)
        except OSError:
            remove(state.tree)  # gone, or something else has taken its place
        state.remove()
        base, _ = self._held.pop(state.directory, (None, 0))
        if base is not None:
            base.prepare_kit()
            base.let_go()


def _device(path: str) -> int | None:
    try:
        return os.lstat(path).st_dev
    except FileNotFoundError:
        return None


@cache
def works(base_dir: str, boot_id: str) -> bool:
    """Whether such mounts can be made here; tried once, then remembered until the next boot."""
    folder = os.path.join(base_dir, FOLDER)
    rights = os.stat("/proc/self/ns/user").st_ino
    answer = os.path.join(folder, f"works-{os.geteuid()}-{rights}-{boot_id}")
    for said in (True, False):
        if os.path.exists(f"{answer}-{said}"):
            return said
    ensure_directory(folder)
    said = _try(os.path.join(folder, f".try-{os.getpid()}"))
    write_bytes(f"{answer}-{said}", b"")
    return said


def _try(place: str) -> bool:
    """In a child, because this process may not want the namespaces if it does not work."""
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            _exercise(place)
            os._exit(0)
        os._exit(1)
    worked = os.waitpid(child, 0)[1] == 0
    remove(place)
    return worked


def _exercise(place: str) -> None:
    """What a task may do: write, delete, replace a directory by another of the same name."""
    lower, upper, work, point = (os.path.join(place, name) for name in ("l", "u", "w", "m"))
    for directory in (f"{lower}/folder", upper, work, point):
        os.makedirs(directory)
    write_bytes(f"{lower}/folder/file", b"x")
    enter_namespace()
    mount_overlay(lower, upper, work, point)
    write_bytes(f"{point}/new", b"x")
    os.unlink(f"{point}/folder/file")
    os.rmdir(f"{point}/folder")
    os.mkdir(f"{point}/folder")
    if os.listdir(f"{point}/folder") or not os.path.exists(f"{lower}/folder/file"):
        raise WorkspaceFailed("overlays do not hide what was deleted")
