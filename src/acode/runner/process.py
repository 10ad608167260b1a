"""Spawning a command as a local process, in a session of its own."""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from acode.runner.pipes import Pipes

# Python ignores or handles these; a command expects their default.
_DEFAULTED = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGCHLD, signal.SIGINT)
_NOT_IGNORED = tuple(
    number
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    if number in _DEFAULTED or signal.getsignal(number) is not signal.SIG_IGN
)
"""For `posix_spawn`, which asks about each signal that it is not told to set, before it sets it."""


def spawn(argv: Sequence[str], env: Mapping[str, str], pipes: Pipes) -> int:
    """The quickest way: the command is born as it is, in our working directory."""
    return os.posix_spawn(
        argv[0],
        list(argv),
        dict(env),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, pipes.stdout_end, 1),
            (os.POSIX_SPAWN_DUP2, pipes.stderr_end, 2),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=_NOT_IGNORED,
    )


def fork_and_exec(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    pipes: Pipes,
    before_exec: Sequence[Callable[[], None]] = (),
) -> int:
    """The way of a single-threaded parent: each step runs in the child before the command does."""
    ours, theirs = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _become(argv, env, cwd, pipes, before_exec, theirs)
    os.close(theirs)
    try:
        trouble = os.read(ours, 4096)
    finally:
        os.close(ours)
    if trouble:
        os.waitpid(pid, 0)
        number, _, name = trouble.decode(errors="replace").partition(" ")
        raise OSError(int(number), os.strerror(int(number)), name or None)
    return pid


def _become(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    pipes: Pipes,
    before_exec: Sequence[Callable[[], None]],
    trouble: int,
) -> NoReturn:
    """Runs in the child and never returns; what goes wrong is told through the pipe."""
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, descriptor in enumerate((nothing, pipes.stdout_end, pipes.stderr_end)):
            os.dup2(descriptor, number)
        os.chdir(cwd)
        for each in _DEFAULTED:
            signal.signal(each, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for step in before_exec:
            step()
        os.execve(argv[0], list(argv), dict(env))  # noqa: S606 -- the user's command, no shell
    except OSError as error:
        os.write(trouble, f"{error.errno or 0} {error.filename or argv[0]}".encode())
    finally:
        os._exit(127)
