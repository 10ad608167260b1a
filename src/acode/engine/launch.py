"""Starting the daemon of a project: in the background, or in this process's place."""

import os
import select
import sys
from contextlib import suppress
from typing import Any, NoReturn

import msgspec
from msgspec.structs import replace

from acode.engine.client import Refused
from acode.engine.options import DaemonOptions
from acode.errors import WorkerStartFailed, WorkerTimeout
from acode.runner.scope import scope_command, standing

START_SECONDS = 120.0
"""Far beyond what the slowest start takes: each of its steps has a bound of its own."""


def become(options: DaemonOptions) -> NoReturn:
    """Be the daemon from here on."""
    os.execv(sys.executable, _command(options))  # noqa: S606 -- our own program, no shell


def launch(options: DaemonOptions, output: str) -> Any:
    """Start a daemon in a session of its own; returns when it says that its workers are up."""
    os.makedirs(os.path.dirname(output), exist_ok=True)
    scope = _scope(options)
    if scope:
        # A manager that cannot be asked after all is no reason to have no pool.
        with suppress(WorkerStartFailed):
            return _launch(scope, options, output)
    return _launch([], options, output)


def _scope(options: DaemonOptions) -> list[str]:
    if os.environ.get("ACODE_CGROUPS") == "off":
        return []
    return scope_command(standing(), f"acode worker pool of {options.root}")


def _launch(prefix: list[str], options: DaemonOptions, output: str) -> Any:
    ours, theirs = os.pipe()
    try:
        try:
            words = [*prefix, *_command(replace(options, ready=theirs))]
            pid = _spawn(words, theirs, output)
        finally:
            os.close(theirs)
        return _hear(ours, pid, output)
    finally:
        os.close(ours)


def _command(options: DaemonOptions) -> list[str]:
    # -P: a module in the working directory must never be taken for one of ours.
    words = msgspec.json.encode(options).decode()
    return [sys.executable, "-P", "-m", "acode.engine.daemon", words]


def _spawn(words: list[str], ready: int, output: str) -> int:
    # What our caller left open, such as the lock of a script, is not the daemon's to keep.
    strangers = [number for number in _open_descriptors() if os.get_inheritable(number)]
    os.set_inheritable(ready, True)
    return os.posix_spawnp(
        words[0],
        words,
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
            *((os.POSIX_SPAWN_CLOSE, number) for number in strangers),
        ],
        setsid=True,
    )


def _open_descriptors() -> list[int]:
    """Those beyond the standard ones. The one that reads the list is closed again by now."""
    numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    return [
        number for number in numbers if number > 2 and os.path.exists(f"/proc/self/fd/{number}")
    ]


def _hear(descriptor: int, pid: int, output: str) -> Any:
    line = _read_line(descriptor)
    if line is None:
        raise WorkerTimeout(
            f"the daemon (pid {pid}) is not ready after {START_SECONDS:g} s",
            f"{output} tells more; acode worker stop --force ends it",
        )
    if not line:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        raise WorkerStartFailed(f"the daemon ended with exit code {code}", f"see {output}")
    told = msgspec.json.decode(line)
    if "error" in told:
        os.waitpid(pid, 0)
        raise Refused(**told["error"])
    return told["ok"]


def _read_line(descriptor: int) -> bytes | None:
    """A whole line; nothing if the other end is gone, None if it never comes."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    received = b""
    while not received.endswith(b"\n"):
        if not poll.poll(round(START_SECONDS * 1000)):
            return None
        chunk = os.read(descriptor, 1 << 16)
        if not chunk:
            return b""
        received += chunk
    return received
