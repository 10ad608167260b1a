"""An attempt ends in time where nobody has said that its host still holds it."""

import pytest

from acode.worker import tenure
from acode.worker.messages import Tenure
from acode.worker.tenure import TenureWatch, Urgency


class Time:
    """Both clocks of a machine; only one of them goes on while it sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ticks = self.up = 1000.0
        monkeypatch.setattr(tenure, "ticks", lambda: self.ticks)
        monkeypatch.setattr(tenure, "uptime", lambda: self.up)

    def pass_(self, seconds: float) -> None:
        self.ticks += seconds
        self.up += seconds

    def sleep(self, seconds: float) -> None:
        self.up += seconds


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(monkeypatch)


def watch(time: Time, seconds: float = 27.0, grace: float = 5.0) -> TenureWatch:
    made = TenureWatch()
    made.extend(Tenure(time.up + seconds, grace))
    return made


def test_it_is_asked_once_and_then_ended_once(time: Time) -> None:
    watched, told = watch(time), []
    for _ in range(60):
        time.pass_(0.5)
        told.append(watched.due())
    assert [each for each in told if each] == [Urgency.SOON, Urgency.NOW]
    assert told.index(Urgency.SOON) == 43, "five seconds before its time is up"
    assert told.index(Urgency.NOW) == 53


def test_word_from_the_daemon_gives_it_more_time(time: Time) -> None:
    watched = watch(time)
    for _ in range(100):
        time.pass_(10)
        watched.extend(Tenure(time.up + 27, 5))
        assert watched.due() is None


def test_a_store_of_ones_own_ends_nothing(time: Time) -> None:
    watched = TenureWatch()
    time.pass_(1_000_000)
    assert (watched.due(), watched.deadline) == (None, None)


def test_after_a_sleep_the_daemon_may_find_out_first(time: Time) -> None:
    watched = watch(time)
    time.pass_(1)
    assert watched.due() is None
    time.sleep(3600)
    assert watched.due() is None
    time.pass_(tenure.CHECK_SECONDS / 2)
    watched.extend(Tenure(time.up + 27, 5))
    time.pass_(tenure.CHECK_SECONDS)
    assert watched.due() is None, "nobody had taken it meanwhile"


def test_after_a_sleep_without_any_word_it_ends(time: Time) -> None:
    watched = watch(time)
    time.sleep(3600)
    assert watched.due() is None
    time.pass_(tenure.CHECK_SECONDS)
    assert watched.due() is Urgency.NOW


def test_an_order_that_had_to_wait_has_the_time_that_was_told_meanwhile(time: Time) -> None:
    watched, early = TenureWatch(), Tenure(time.up + 27, 5)
    time.pass_(60)
    watched.extend(Tenure(time.up + 27, 5))
    watched.begin(early)
    assert watched.due() is None
    time.pass_(40)
    watched.begin(Tenure(time.up + 27, 5))
    assert watched.due() is None
    watched.begin(None)
    time.pass_(1000)
    assert watched.due() is None
