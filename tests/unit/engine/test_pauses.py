"""Types of tasks that wait for their service."""

from pathlib import Path

from acode.clock import ManualClock
from acode.engine.pauses import Pauses
from acode.store.base import WholeKind


def test_a_pause_ends_by_itself() -> None:
    clock = ManualClock()
    pauses = Pauses(clock)
    assert pauses.hold("claude-code", clock.now() + 1000, "no more")
    assert pauses.held() == [WholeKind("claude-code")]
    assert pauses.next_end_in() == 1000
    clock.advance(1000)
    assert pauses.held() == []
    assert pauses.next_end_in() is None


def test_the_later_end_counts_and_is_no_news() -> None:
    clock = ManualClock()
    pauses = Pauses(clock)
    now = clock.now()
    assert pauses.hold("a", now + 2000, "no more")
    assert not pauses.hold("a", now + 1000, "no more")
    assert pauses.next_end_in() == 2000
    assert not pauses.hold("a", now + 3000, "no more")
    assert pauses.next_end_in() == 3000


def test_the_next_daemon_knows(tmp_path: Path) -> None:
    clock, path = ManualClock(), str(tmp_path / "pauses.json")
    Pauses(clock, path).hold("a", clock.now() + 1000, "no more")
    (seen,) = Pauses(clock, path).seen()
    assert (seen["type"], seen["reason"]) == ("a", "no more")
    Pauses(clock, path).lift()
    assert Pauses(clock, path).seen() == []


def test_a_torn_file_and_a_full_disk_are_no_obstacle(tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "pauses.json"
    path.write_bytes(b'{"a": ')
    assert Pauses(clock, str(path)).held() == []
    pauses = Pauses(clock, str(tmp_path / "no" / "such" / "place"))
    assert pauses.hold("a", clock.now() + 1000, "no more")
    assert pauses.held()
