"""The worker's loop: descriptors, signals and a timer."""

import os
import signal
from collections.abc import Iterator

import pytest

from acode.clock import ticks
from acode.worker.loop import Loop


@pytest.fixture
def loop() -> Iterator[Loop]:
    before = signal.getsignal(signal.SIGUSR1)
    loop = Loop()
    yield loop
    loop.close()
    signal.signal(signal.SIGUSR1, before)


def test_a_handler_is_called_when_there_is_something_to_read(loop: Loop) -> None:
    ours, theirs = os.pipe()
    heard: list[bytes] = []
    loop.watch(ours, lambda: heard.append(os.read(ours, 10)))
    loop.run_once(ticks())
    os.write(theirs, b"x")
    loop.run_once(None)
    loop.forget(ours)
    os.write(theirs, b"y")
    loop.run_once(ticks())
    assert heard == [b"x"]
    os.close(ours)
    os.close(theirs)


def test_a_signal_is_handled_once_however_often_it_came(loop: Loop) -> None:
    heard: list[int] = []
    loop.on_signal(signal.SIGUSR1, lambda: heard.append(1))
    for _ in range(3):
        os.kill(os.getpid(), signal.SIGUSR1)
    assert heard == []
    loop.run_once(None)
    assert heard == [1]


def test_what_was_forgotten_in_the_same_round_is_not_called(loop: Loop) -> None:
    pipes = [os.pipe() for _ in range(2)]
    heard: list[int] = []

    def hear(ours: int) -> None:
        heard.append(ours)
        for other, _ in pipes:
            loop.forget(other)

    for ours, theirs in pipes:
        loop.watch(ours, lambda ours=ours: hear(ours))  # type: ignore[misc]
        os.write(theirs, b"x")
    loop.run_once(None)
    assert len(heard) == 1
    for descriptor in (descriptor for pipe in pipes for descriptor in pipe):
        os.close(descriptor)


def test_a_deadline_ends_the_wait(loop: Loop) -> None:
    end = ticks() + 0.05
    loop.run_once(end)
    assert ticks() >= end - 0.01
