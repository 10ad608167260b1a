"""Where a worker's container is reached: a directory of pipes that it has mounted, read-only.

Named pipes work through a mount that may not be written to, so a task can neither replace the
supervisor nor what it is told to run. The engine has no part in it: a command costs a fork.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

PIPES = ("in", "reply", "out", "err")


class Wanted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a task asks of its container; `None` leaves it to the pool."""

    image: str | None = None
    memory_mb: int | None = None
    cpus: float | None = None
    project_writable: bool = False


class Seat(msgspec.Struct, frozen=True, kw_only=True):
    """A container that waits for commands, and who its user is on this side."""

    directory: str
    container_id: str
    engine: str
    """The engine's socket, for when the container does not obey."""
    uid: int
    gid: int
    memory_mb: int = 0
    """What all processes in it may use together."""
    has_shell: bool = True
    """Without one a keeper holds it, and the engine starts its commands."""

    def path(self, name: str) -> str:
        """A file of the directory."""
        return f"{self.directory}/{name}"

    @contextmanager
    def outputs(self) -> Iterator[tuple[int, int]]:
        """The pipes that commands print to, open.

        Both ends, so that whoever opens them inside never waits and we never see an end of file.
        """
        flags = os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC
        pipes = os.open(self.path("out"), flags), os.open(self.path("err"), flags)
        try:
            yield pipes
        finally:
            for pipe in pipes:
                os.close(pipe)


def furnish(directory: str, uid: int, gid: int, keeper: bytes | None = None) -> None:
    """Make the directory with its pipes, for a container of this user, and what waits at them."""
    os.makedirs(directory, mode=0o700)
    give(directory, uid, gid)
    if keeper is not None:
        _write(f"{directory}/keeper", keeper, 0o555)
    else:
        _write_scripts(directory)
    for name in PIPES:
        os.mkfifo(f"{directory}/{name}", 0o600)
        give(f"{directory}/{name}", uid, gid)


def _write_scripts(directory: str) -> None:
    from importlib.resources import files  # workers, who only use a seat, do without

    for name in ("supervisor", "health"):
        script = files(__package__).joinpath(f"{name}.sh").read_bytes()
        _write(f"{directory}/{name}", script, 0o444)


def give(path: str, uid: int, gid: int) -> None:
    """Let it belong to the container's user; only root has to, and can."""
    if os.geteuid() == 0:
        os.chown(path, uid, gid, follow_symlinks=False)


def _write(path: str, data: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        os.write(descriptor, data)
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def leave_order(seat: Seat, text: str) -> None:
    """Write down what is to be run; only its user may read it."""
    path = seat.path("order")
    if os.path.lexists(path):
        os.unlink(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400)
    with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    give(path, seat.uid, seat.gid)
