"""What of this machine a container sees: everything at its own path, as little as will do.

A worktree's `.git` file names an absolute path, so git works inside only if paths are the same.
"""

import os
import stat
from collections.abc import Iterable
from contextlib import suppress

import msgspec

from acode.errors import ConfigError
from acode.runner.container.plan import Mount

SECRETS = "/run/secrets"
_RESERVED = ("/", "/proc", "/sys", "/dev", "/run", SECRETS)
_SHARED_GIT = ("objects", "refs", "logs", "worktrees")
"""What git has to write to for a commit. Never `hooks` or `config`: this machine obeys them."""


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """The directories of a worker and its project."""

    project: str
    agent: str
    """Nothing of it is seen but what is named here: it holds the queue and the token."""
    control: str
    writable: tuple[str, ...]
    """Workspaces, artifacts and temporary files."""
    temporary: tuple[tuple[str, str], ...] = ()
    """What the container sees as its /tmp and the like: here, where it is counted and emptied."""
    read_only: tuple[str, ...] = ()
    git: str | None = None
    """The directory that all worktrees of the repository share."""
    project_writable: bool = False


class Secret(msgspec.Struct, frozen=True):
    """A file that is found under /run/secrets."""

    name: str
    file: str


def mounts_of(
    places: Places, extra: Iterable[Mount] = (), secrets: Iterable[Secret] = ()
) -> tuple[tuple[Mount, ...], tuple[str, ...]]:
    """The mounts, and which directories are to look empty."""
    wanted = [
        _same(places.project, read_only=not places.project_writable),
        *_git_mounts(places),
        *(_same(path) for path in places.writable),
        *(_same(path, read_only=True) for path in places.read_only),
        _same(places.control, read_only=True),
        *extra,
        *(Mount(secret.file, f"{SECRETS}/{secret.name}", True) for secret in secrets),
    ]
    wanted = [*_temporary(places, wanted), *wanted]
    # A target that is named twice is the later one's.
    mounts = tuple({mount.target: mount for mount in wanted}.values())
    masked = (places.agent,) if _is_below(places.agent, places.project) else ()
    return mounts, masked


def _same(path: str, *, read_only: bool = False) -> Mount:
    return Mount(path, path, read_only)


def _temporary(places: Places, others: list[Mount]) -> list[Mount]:
    """Not where something else is mounted below: to empty it would take that away."""
    return [
        Mount(source, target)
        for source, target in places.temporary
        if not any(_is_below(other.target, target) for other in others)
    ]


def _git_mounts(places: Places) -> list[Mount]:
    if places.git is None:
        return []
    parts = [f"{places.git}/{name}" for name in _SHARED_GIT]
    return [
        _same(places.git, read_only=True),
        *(_same(part) for part in parts if os.path.isdir(part)),
    ]


def checked(mounts: Iterable[Mount], project: str, engine_socket: str) -> tuple[Mount, ...]:
    """The user's own mounts with absolute sources; refuses what must not or cannot be mounted."""
    return tuple(_checked(mount, project, engine_socket) for mount in mounts)


def _checked(mount: Mount, project: str, engine_socket: str) -> Mount:
    source = os.path.normpath(os.path.join(project, os.path.expanduser(mount.source)))
    where = f"workers.docker.mounts: {mount.source}"
    if not os.path.exists(source):
        raise ConfigError(f"{where} is not there", "make it, or take it out of the mounts")
    if _is_below(os.path.realpath(engine_socket), os.path.realpath(source)):
        raise ConfigError(
            f"{where} would give tasks the container engine, and with it this machine",
            "mount a directory that does not hold the engine's socket",
        )
    target = os.path.normpath(mount.target)
    if not target.startswith("/") or target in _RESERVED or _is_below(target, "/proc"):
        raise ConfigError(
            f"workers.docker.mounts: {mount.target} cannot be a target",
            "name an absolute path inside the container that nothing else is mounted at",
        )
    return Mount(source, target, mount.read_only)


def checked_secrets(secrets: Iterable[Secret], project: str) -> tuple[Secret, ...]:
    """The secrets with absolute paths; refuses what is no file."""
    return tuple(_checked_secret(secret, project) for secret in secrets)


def _checked_secret(secret: Secret, project: str) -> Secret:
    file = os.path.normpath(os.path.join(project, os.path.expanduser(secret.file)))
    if not os.path.isfile(file) or not os.access(file, os.R_OK):
        raise ConfigError(
            f"workers.docker.secrets: {secret.file} is no file that can be read",
            "name a file that holds the secret, and nothing else",
        )
    return Secret(secret.name, file)


def readable_by(secret: Secret, uid: int, spare: str) -> Secret:
    """The secret in a file that the container's user can read: a copy where it is not his own."""
    status = os.stat(secret.file)
    if status.st_uid == uid and status.st_mode & stat.S_IRUSR:
        return secret
    os.makedirs(spare, mode=0o700, exist_ok=True)
    copy = f"{spare}/{secret.name}"
    with open(secret.file, "rb") as file:
        content = file.read()
    with suppress(FileNotFoundError):
        os.unlink(copy)
    descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400)
    with open(descriptor, "wb") as file:
        file.write(content)
    if os.geteuid() == 0:
        os.chown(copy, uid, -1)
    return Secret(secret.name, copy)


def _is_below(path: str, above: str) -> bool:
    return f"{path}/".startswith(f"{above.rstrip('/')}/")
