"""What there is on this machine, one finding for each thing that the pool builds on."""

import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from acode.engine.tools import version
from acode.errors import AcodeError
from acode.human import size

if TYPE_CHECKING:
    from acode.app import App

OLDEST_GIT = (2, 31)
OLDEST_SQLITE = (3, 35, 0)
LITTLE_DISK_BYTES = 1 << 30
LITTLE_DISK_SHARE = 0.05


class Finding(NamedTuple):
    """One thing: how it is, and what can be done about it."""

    name: str
    state: Literal["ok", "warning", "missing"]
    found: str
    fix: str = ""

    def view(self) -> dict[str, Any]:
        """As JSON shows it."""
        return {"name": self.name, "status": self.state, "found": self.found, "fix": self.fix}


def examine(app: "App") -> list[Finding]:
    """Look at everything. Whatever goes wrong on the way is a finding, too."""
    findings: list[Finding] = []
    _ = app.settings  # what is wrong with those is told once, and instead of everything else
    for look in (
        _python, _sqlite, _git, _tools, _disk, _pidfd, _landlock, _sandbox, _network, _namespaces,
        _overlay, _cgroups, _pressure, _engine,
    ):  # fmt: skip
        try:
            findings += look(app)
        except (OSError, AcodeError) as error:
            name = look.__name__.strip("_")
            findings.append(Finding(name, "warning", f"cannot be told: {error}"))
    return findings


def _python(_app: "App") -> Iterator[Finding]:
    yield Finding("python", "ok", f"{platform.python_version()} ({sys.executable})")


def _sqlite(_app: "App") -> Iterator[Finding]:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        fix = "use a Python that is built with SQLite 3.35 or newer"
        yield Finding("sqlite", "missing", sqlite3.sqlite_version, fix)
    else:
        yield Finding("sqlite", "ok", sqlite3.sqlite_version)


def _git(app: "App") -> Iterator[Finding]:
    path = shutil.which("git")
    required = "git" in app.settings.tools.required
    if path is None:
        state: Literal["missing", "warning"] = "missing" if required else "warning"
        yield Finding("git", state, "not found in PATH", "install it: apt-get install git")
        return
    words = version(path)
    numbers = tuple(int(part) for part in words.split()[2].split(".")[:2] if part.isdigit())
    if numbers < OLDEST_GIT:
        yield Finding("git", "warning", words, "2.31 or newer is needed for worktrees")
    else:
        yield Finding("git", "ok", words)


def _tools(app: "App") -> Iterator[Finding]:
    for tool in app.settings.tools.required:
        if tool == "git":
            continue
        if path := shutil.which(tool):
            yield Finding(tool, "ok", path)
        else:
            fix = f"install {tool}, or take it out of tools.required"
            yield Finding(tool, "missing", "required, and not found in PATH", fix)


def _disk(app: "App") -> Iterator[Finding]:
    from acode.runner.machine import look

    seen = look(app.project.root)
    if seen.disk_bytes is None or seen.disk_free_bytes is None:
        yield Finding("disk", "warning", "cannot be told")
        return
    words = f"{size(seen.disk_free_bytes)} of {size(seen.disk_bytes)} free"
    scarce = seen.disk_free_bytes < max(LITTLE_DISK_BYTES, seen.disk_bytes * LITTLE_DISK_SHARE)
    if scarce:
        yield Finding("disk", "warning", words, "free some space: a full disk stops the pool")
    else:
        yield Finding("disk", "ok", words)


def _pidfd(_app: "App") -> Iterator[Finding]:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        yield Finding("pidfd", "missing", f"{error.strerror}", "Linux 5.4 or newer is needed")
    else:
        yield Finding("pidfd", "ok", "processes cannot be mistaken for each other")


def _landlock(_app: "App") -> Iterator[Finding]:
    from acode.runner.landlock import abi, missing

    known = abi()
    gaps = list(missing(known))
    fix = "a kernel with CONFIG_SECURITY_LANDLOCK and landlock in its lsm= list"
    if known < 1:
        yield Finding("landlock", "warning", "not there: tasks may write everywhere", fix)
    elif gaps:
        words = f"ABI {known}: tasks are not kept from {'; '.join(gaps)}"
        yield Finding("landlock", "warning", words, "a newer kernel knows more of it")
    else:
        yield Finding("landlock", "ok", f"ABI {known}: files, devices, signals")


def _sandbox(app: "App") -> Iterator[Finding]:
    from acode.runner.gaps import sandbox_gaps
    from acode.runner.sandbox import SHARED_MEMORY, lies_within

    sandbox = app.settings.sandbox
    words = f"level {sandbox.level}, network {sandbox.network}"
    if sandbox.level == "off":
        fix = "set sandbox.level to write: tasks may do whatever you may do"
        yield Finding("sandbox", "warning", words, fix)
        return
    root = app.project.root
    gaps = list(sandbox_gaps(sandbox.level, sandbox.network, root, sandbox.write_paths))
    if gaps:
        yield Finding("sandbox", "warning", f"{words}, but not against {'; '.join(gaps)}")
    else:
        yield Finding("sandbox", "ok", f"{words}: all of it is enforced")
    if lies_within(root, SHARED_MEMORY):
        fix = "move the project, if its tasks need semaphores or shared memory"
        yield Finding(
            "sandbox", "warning", f"{SHARED_MEMORY} is closed to tasks: it holds the project", fix
        )
    for path in (*sandbox.write_paths, *sandbox.read_paths):
        if not os.path.exists(os.path.join(app.project.root, os.path.expanduser(path))):
            fix = "make it before the pool starts, or take it out of the settings"
            yield Finding("sandbox", "warning", f"{path} is allowed, but it is not there", fix)


def _network(_app: "App") -> Iterator[Finding]:
    from acode.runner.gaps import network_way

    way = network_way()
    fix = "allow user namespaces, or run the pool as root"
    match way:
        case "namespace" | "user namespace":
            yield Finding("network none", "ok", f"by a {way}")
        case "Landlock":
            yield Finding("network none", "warning", "TCP only, by Landlock", fix)
        case "nothing":
            yield Finding("network none", "warning", "cannot be enforced", fix)


def _namespaces(_app: "App") -> Iterator[Finding]:
    from acode.runner.namespaces import users_may

    if users_may():
        yield Finding("user namespaces", "ok", "can be made")
    else:
        fix = (
            "sysctl kernel.unprivileged_userns_clone=1, on Ubuntu "
            "kernel.apparmor_restrict_unprivileged_userns=0; a container must allow them"
        )
        yield Finding("user namespaces", "warning", "cannot be made", fix)


def _overlay(app: "App") -> Iterator[Finding]:
    from acode.runner.identity import boot_id
    from acode.workspace.overlay import works

    # In a place that goes again: whoever only looks leaves nothing behind.
    with TemporaryDirectory(prefix=".acode-", dir=app.project.root) as place:
        can = works(place, boot_id())
    if can:
        yield Finding("overlay mounts", "ok", "worktrees cost next to nothing")
    else:
        fix = "worktrees are copied instead; user namespaces on Linux 5.11 allow overlays"
        yield Finding("overlay mounts", "warning", "cannot be made", fix)


def _cgroups(_app: "App") -> Iterator[Finding]:
    from acode.runner.scope import scope_command, standing, wants_scope

    seen = standing()
    if scope_command(seen, ""):
        yield Finding("cgroups", "ok", "the pool is given a scope by systemd when it starts")
    elif seen.place is not None:
        names = ", ".join(sorted(seen.place.directories))
        yield Finding("cgroups", "ok", f"version {seen.place.version}, writable: {names}")
    elif wants_scope(seen):
        fix = (
            "loginctl enable-linger, then the pool is given a scope when it starts; or, until "
            "you log out, systemd-run --user --scope -p Delegate=yes acode worker start"
        )
        yield Finding("cgroups", "warning", "none; limits are kept by watching", fix)
    else:
        fix = "run the pool as root, or in a container that may make groups"
        yield Finding("cgroups", "warning", "none; limits are kept by watching", fix)


def _pressure(_app: "App") -> Iterator[Finding]:
    if os.access("/proc/pressure/memory", os.R_OK):
        yield Finding("pressure", "ok", "the kernel tells how scarce memory is")
    else:
        fix = "boot with psi=1; available memory is looked at instead"
        yield Finding("pressure", "warning", "/proc/pressure is not there", fix)


def _engine(app: "App") -> Iterator[Finding]:
    from acode.runner.container.discovery import find_engine

    workers = app.settings.workers
    try:
        engine = find_engine(workers.docker.host, os.environ)
    except AcodeError as error:
        needed = workers.mode == "docker" and not workers.docker.fallback_to_local
        fix = "install Docker or Podman, or start its service; only --mode docker needs it"
        yield Finding("containers", "missing" if needed else "warning", str(error), fix)
    else:
        words = f"{engine.name} {engine.version} at {engine.socket}"
        yield Finding("containers", "ok", words + (", rootless" if engine.rootless else ""))
