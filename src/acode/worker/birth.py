"""How a worker comes to be: forked by the zygote, or, where that is refused, as a program.

A fork has to promise the machine as much memory as the zygote has, and may be refused for that
where a program is not. Such a worker loads its code itself, which takes longer and shares nothing.
"""

import gc
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import NoReturn

import msgspec

from acode.runner.tree import die_with_parent
from acode.worker.config import WorkerConfig
from acode.worker.exits import ExitCode
from acode.worker.main import work

_LISTENER = 3
"""Where a worker that is a program finds its socket; its configuration is its standard input."""


def be_worker(
    config: WorkerConfig, listener: socket.socket, parent: int, settle_in: Callable[[], None]
) -> NoReturn:
    """Work in this process until its end."""
    code = int(ExitCode.BUG)
    try:
        # Until the daemon calls it nobody may know of it: so long it dies with whoever made it.
        die_with_parent(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(code)
        settle_in()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        code = work(config, listener)
    except Exception as error:  # nothing may come after us in this process
        os.write(2, f"worker-{config.id}: {type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(code)


def start(config: WorkerConfig, listener: socket.socket) -> int:
    """Start a worker as a program; its pid."""
    words = os.memfd_create("worker")
    try:
        os.write(words, msgspec.json.encode(config))
        os.lseek(words, 0, os.SEEK_SET)
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-P", "-m", "acode.worker.birth", str(os.getpid())],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, words, 0),
                (os.POSIX_SPAWN_DUP2, listener.fileno(), _LISTENER),
            ],
            setsid=True,
            setsigdef=(signal.SIGINT, signal.SIGTERM),
        )
    finally:
        os.close(words)


def main(parent: int) -> NoReturn:
    """Be the worker that somebody has started."""
    with open(0, "rb", closefd=False) as file:
        config = msgspec.json.decode(file.read(), type=WorkerConfig)
    be_worker(config, socket.socket(fileno=_LISTENER), parent, _settle_in)


def _settle_in() -> None:
    """Let go of what we were started with, and be quick from here on."""
    os.set_inheritable(_LISTENER, False)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(nothing, 0)
    os.close(nothing)
    gc.freeze()
    gc.disable()


if __name__ == "__main__":
    main(int(sys.argv[1]))
