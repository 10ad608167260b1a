"""One thread wakes another."""

import threading

from acode.embedded.nudge import Nudge
from tests.embedded.conftest import PATIENCE


def test_nobody_is_woken_for_nothing() -> None:
    assert not Nudge().wait(0.01)


def test_a_nudge_waits_for_whoever_comes_and_is_used_up_then() -> None:
    nudge = Nudge()
    nudge.give()
    nudge.give()
    assert nudge.wait()
    assert not nudge.wait(0)


def test_a_nudge_can_be_forgotten() -> None:
    nudge = Nudge()
    nudge.forget()
    nudge.give()
    nudge.forget()
    assert not nudge.wait(0)


def test_a_sleeper_wakes() -> None:
    nudge, back = Nudge(), Nudge()

    def sleep() -> None:
        for _ in range(1000):
            nudge.wait()
            back.give()

    thread = threading.Thread(target=sleep, daemon=True)
    thread.start()
    for _ in range(1000):
        nudge.give()
        assert back.wait(PATIENCE)
    thread.join(PATIENCE)
    assert not thread.is_alive()
