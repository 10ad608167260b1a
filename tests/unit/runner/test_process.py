"""A command as it is born."""

import subprocess
import sys

import pytest

SPAWN = """
import os, signal, sys
for number in (signal.SIGHUP, signal.SIGQUIT):  # a shell may have had them ignored
    signal.signal(number, signal.SIG_DFL)
{before}
from acode.runner.pipes import Pipes
from acode.runner.process import fork_and_exec, spawn
signal.signal(signal.SIGTERM, lambda *_: None)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
pipes = Pipes()
words = ("/bin/cat", "/proc/self/status")
pid = {way}
os.waitpid(pid, 0)
os.set_blocking(pipes.stdout, True)
sys.stdout.write(os.read(pipes.stdout, 4096).decode())
"""
WAYS = ("spawn(words, {}, pipes)", "fork_and_exec(words, {}, '/', pipes)")
OF_THE_LIBRARY = 0b11 << 31
"""Signals that the C library keeps for itself."""


def signals(way: str, before: str = "") -> dict[str, int]:
    """What a command is born with: a bit for each signal."""
    done = subprocess.run(
        [sys.executable, "-c", SPAWN.format(way=way, before=before)],
        capture_output=True,
        text=True,
        check=True,
    )
    told = dict(line.split(":") for line in done.stdout.splitlines())
    names = ("SigBlk", "SigIgn", "SigCgt")
    return {name: int(told[name], 16) & ~OF_THE_LIBRARY for name in names}


@pytest.mark.parametrize("way", WAYS)
def test_a_command_is_born_with_every_signal_as_usual(way: str) -> None:
    assert signals(way) == {"SigBlk": 0, "SigIgn": 0, "SigCgt": 0}


@pytest.mark.parametrize("way", WAYS)
def test_a_signal_that_the_pool_was_told_to_ignore_stays_ignored(way: str) -> None:
    before = "signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    assert signals(way, before)["SigIgn"] == 1 << 0
