import pytest
from hypothesis import given
from hypothesis import strategies as st

from acode.policy.health import Watch, is_hung, look

NOW = 1_700_000_000_000
BEAT = 10_000
HOUR = 3_600_000
LONG_AWAKE = Watch(looked_at=NOW, since=NOW - HOUR)


@pytest.mark.parametrize(
    ("silent_for", "hung"),
    [
        (-BEAT, False),
        (0, False),
        (BEAT, False),
        (3 * BEAT, False),
        (3 * BEAT + 1, True),
        (10 * BEAT, True),
    ],
)
def test_a_worker_that_missed_three_heartbeats_hangs(silent_for: int, hung: bool) -> None:
    assert is_hung(NOW - silent_for, LONG_AWAKE, BEAT) is hung


def test_a_daemon_that_just_began_to_look_blames_nobody() -> None:
    watch = look(None, NOW, BEAT)
    assert watch == Watch(looked_at=NOW, since=NOW)
    assert not is_hung(NOW - HOUR, watch, BEAT)


@pytest.mark.parametrize("gap", [0, 1, BEAT, 2 * BEAT])
def test_a_daemon_that_looks_in_time_goes_on_watching(gap: int) -> None:
    assert look(LONG_AWAKE, NOW + gap, BEAT) == Watch(looked_at=NOW + gap, since=NOW - HOUR)


@pytest.mark.parametrize("gap", [2 * BEAT + 1, 8 * HOUR, -1, -8 * HOUR])
def test_a_daemon_that_slept_or_whose_clock_jumped_begins_anew(gap: int) -> None:
    assert look(LONG_AWAKE, NOW + gap, BEAT) == Watch(looked_at=NOW + gap, since=NOW + gap)


def test_after_a_sleep_everybody_has_three_heartbeats_to_answer() -> None:
    woken_at = NOW + 8 * HOUR
    watch = look(LONG_AWAKE, woken_at, BEAT)
    for awake_for in (0, BEAT, 2 * BEAT, 3 * BEAT):
        watch = look(watch, woken_at + awake_for, BEAT)
        assert not is_hung(NOW, watch, BEAT)
    watch = look(watch, woken_at + 3 * BEAT + 1, BEAT)
    assert is_hung(NOW, watch, BEAT)
    assert not is_hung(woken_at + BEAT, watch, BEAT)


@given(st.integers(0, BEAT - 1), st.lists(st.integers(0, 6 * BEAT), max_size=40))
def test_a_sound_worker_is_never_blamed_however_long_the_daemon_is_away(
    phase: int, gaps: list[int]
) -> None:
    now, watch, heard_at = NOW, look(None, NOW, BEAT), NOW
    for gap in gaps:
        now += gap
        watch = look(watch, now, BEAT)
        assert not is_hung(heard_at, watch, BEAT)
        # At the worst the daemon reads only after it looked.
        heard_at = max(NOW, now - (now - phase) % BEAT)


@given(st.lists(st.integers(0, 2 * BEAT), min_size=1, max_size=30))
def test_a_silent_worker_is_found_at_the_first_look_after_three_heartbeats(gaps: list[int]) -> None:
    now, watch = NOW, look(None, NOW, BEAT)
    for gap in gaps:
        now += gap
        watch = look(watch, now, BEAT)
        assert is_hung(NOW, watch, BEAT) is (now - NOW > 3 * BEAT)
