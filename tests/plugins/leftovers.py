"""Fails the run if a test leaves a child process behind."""

from collections.abc import Iterator

import psutil
import pytest

# Python's own helpers live as long as the process that used multiprocessing.
_PYTHONS_OWN = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


@pytest.fixture(scope="session", autouse=True)
def no_process_is_left_behind() -> Iterator[None]:
    before = set(_children())
    yield
    left = [child for child in _children() if child not in before]
    _, alive = psutil.wait_procs(left, timeout=2)
    commands = [_command(child) for child in alive]
    for child in alive:
        child.kill()
    assert not alive, f"tests left processes behind: {commands}"


def _children() -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process().children(recursive=True)
        if not any(own in " ".join(_command(child)) for own in _PYTHONS_OWN)
    ]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
