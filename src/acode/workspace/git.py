"""Calling git so that nobody else's settings, hooks or language come into it."""

import os
import select
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache

from acode.errors import AcodeError, DiskFull, ToolMissing, WorkspaceFailed

OURS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.quotePath=false",
    "gc.auto=0",
    "maintenance.auto=false",
)
"""Settings that hold whatever a configuration says."""
NOBODYS_SETTINGS = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
PASSED = ("PATH", "HOME", "XDG_CONFIG_HOME", "SSH_AUTH_SOCK", "TMPDIR")
_FULL = (b"No space left on device", b"Disk quota exceeded")
_CHANGED_SIGNALS = (signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)


class GitFailed(WorkspaceFailed):
    """Git refused something; its own words are the message."""


class GitTooSlow(WorkspaceFailed):
    """Git did not come to an end in time."""


def run(
    arguments: Sequence[str],
    variables: Mapping[str, str],
    *,
    stdin: bytes = b"",
    stdout: int | None = None,
) -> bytes:
    """Run git and give its output, or write it to a descriptor. Raises in git's own words."""
    code, output, complaint = attempt(arguments, variables, stdin=stdin, stdout=stdout)
    if code != 0:
        raise _refusal(arguments, code, complaint)
    return output


def attempt(
    arguments: Sequence[str],
    variables: Mapping[str, str],
    *,
    stdin: bytes = b"",
    stdout: int | None = None,
    seconds: float | None = None,
) -> tuple[int, bytes, bytes]:
    """Run git; its exit code, its output, and what it said besides.

    With a bound it gets a session of its own: without a terminal nobody can be asked for anything.
    """
    # Files in memory: unlike with pipes, nobody can wait for the other for ever.
    given, taken, said = (os.memfd_create(name) for name in ("stdin", "stdout", "stderr"))
    try:
        if stdin:
            _write_all(given, stdin)
            os.lseek(given, 0, os.SEEK_SET)
        descriptors = (given, stdout or taken, said)
        if seconds is None:
            code = _wait(_spawn(arguments, variables, descriptors))
        else:
            code = _wait_for(_spawn(arguments, variables, descriptors, alone=True), seconds)
        return code, _content(taken), _content(said)
    finally:
        for descriptor in (given, taken, said):
            os.close(descriptor)


def _spawn(
    arguments: Sequence[str],
    variables: Mapping[str, str],
    descriptors: tuple[int, int, int],
    *,
    alone: bool = False,
) -> int:
    settings = [word for setting in OURS for word in ("-c", setting)]
    return os.posix_spawn(
        program(),
        ["git", "--no-pager", *settings, *arguments],
        environment() | dict(variables),
        file_actions=[(os.POSIX_SPAWN_DUP2, fd, place) for place, fd in enumerate(descriptors)],
        setsigmask=(),
        setsigdef=_CHANGED_SIGNALS,
        setsid=alone,
    )


def _wait(pid: int) -> int:
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except BaseException:
        # Whoever interrupts us must find nothing that still writes.
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        raise


def _wait_for(pid: int, seconds: float) -> int:
    """Wait for the leader of a session; after that long it goes with all that it has started."""
    watch = os.pidfd_open(pid)
    try:
        _expect(watch, seconds)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except BaseException:
        with suppress(ProcessLookupError, ChildProcessError):
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        raise
    finally:
        os.close(watch)


def _expect(watch: int, seconds: float) -> None:
    poll = select.poll()
    poll.register(watch, select.POLLIN)
    if not poll.poll(seconds * 1000):
        raise GitTooSlow(f"git did not end within {seconds:g} s")


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _content(descriptor: int) -> bytes:
    size = os.lseek(descriptor, 0, os.SEEK_END)
    return os.pread(descriptor, size, 0) if size else b""


@cache
def program() -> str:
    """Where git is."""
    found = shutil.which("git")
    if found is None:
        raise ToolMissing("git is not on the PATH", hint="install git 2.39 or later")
    return found


def environment() -> dict[str, str]:
    """What git sees of our environment: nothing that changes what it does."""
    return {name: os.environ[name] for name in PASSED if name in os.environ} | {
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }


def _refusal(arguments: Sequence[str], code: int, complaint: bytes) -> AcodeError:
    if any(full in complaint for full in _FULL):
        return DiskFull("git found no room on the disk")
    words = complaint.decode(errors="replace").strip() or f"exit code {code}"
    return GitFailed(f"git {_verb(arguments)}: {words[-2000:]}")


def _verb(arguments: Sequence[str]) -> str:
    """The command, after the options of git itself, which come in pairs."""
    return arguments[0] if not arguments[0].startswith("-") else _verb(arguments[2:])
