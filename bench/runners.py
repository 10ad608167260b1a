"""Other ways to run many commands, four at once, each driven as its own documentation does."""

import os
import shutil
import subprocess
from collections.abc import Callable
from functools import partial

from acode.policy.commands import SHELL

AT_ONCE = 4
COMMAND = "true"

Runner = Callable[[str, int], None]
"""Runs the command so many times; gets a fresh directory for what it needs."""


def bare(_directory: str, times: int) -> None:
    """The floor: nothing but spawning and waiting."""
    running = 0
    for _ in range(times):
        if running == AT_ONCE:
            os.wait()
            running -= 1
        os.posix_spawn(SHELL, [SHELL, "-c", COMMAND], os.environ)
        running += 1
    for _ in range(running):
        os.wait()


def xargs(_directory: str, times: int) -> None:
    """`xargs`: knows nothing of output, time limits or a crash."""
    words = ["xargs", "-P", str(AT_ONCE), "-I", "{}", SHELL, "-c", "{}"]
    _run(words, input=f"{COMMAND}\n" * times)


def parallel(_directory: str, times: int) -> None:
    """GNU parallel, its advertisement silenced."""
    words = ["parallel", "--will-cite", "-j", str(AT_ONCE)]
    _run(words, input=f"{COMMAND}\n" * times)


def task_spooler(directory: str, times: int, flags: str = "-n") -> None:
    """task-spooler: a client adds each command to its server, called by a shell's loop.

    Output is thrown away.
    """
    server = os.environ | {"TS_SOCKET": f"{directory}/ts.sock", "TS_SLOTS": str(AT_ONCE)}
    server |= {"TS_MAXFINISHED": "10", "TMPDIR": directory}
    try:
        add = f"tsp {flags} {SHELL} -c {COMMAND}"
        loop = f"i=0; while [ $i -lt {times} ]; do {add}; i=$((i+1)); done > /dev/null"
        _run([SHELL, "-c", loop], env=server)
        for place in range(AT_ONCE):
            # Of those that are through, all but the newest may be forgotten already.
            _wait_for_job(times - 1 - place, server)
    finally:
        _run(["tsp", "-K"], env=server)


def _wait_for_job(number: int, server: dict[str, str]) -> None:
    subprocess.run(["tsp", "-w", str(number)], env=server, check=False, capture_output=True)


def _run(words: list[str], **options: object) -> None:
    subprocess.run(words, check=True, capture_output=True, text=True, **options)  # type: ignore[call-overload]


def installed() -> dict[str, Runner]:
    """Those that this machine has, by name."""
    programs: dict[str, tuple[str, Runner]] = {
        "xargs -P4": ("xargs", xargs),
        "GNU parallel": ("parallel", parallel),
        "task-spooler": ("tsp", task_spooler),
        "task-spooler that keeps output": ("tsp", partial(task_spooler, flags="")),
    }
    return {name: run for name, (program, run) in programs.items() if shutil.which(program)}
