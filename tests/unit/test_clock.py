import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acode.clock import ManualClock, SystemClock, from_iso, iso

# From 1970 to the year 2200.
MOMENTS = st.integers(0, 7_258_118_400_000)


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_001, "2023-11-14T22:13:20.001Z"),
        (1_700_000_000_999, "2023-11-14T22:13:20.999Z"),
    ],
)
def test_a_moment_is_written_in_utc_with_milliseconds(moment: int, text: str) -> None:
    assert iso(moment) == text
    assert from_iso(text) == moment


def test_no_moment_is_written_as_none() -> None:
    assert iso(None) is None


@given(MOMENTS)
def test_a_moment_comes_back_as_it_was(moment: int) -> None:
    text = iso(moment)
    assert text is not None
    assert from_iso(text) == moment


@given(MOMENTS, MOMENTS)
def test_later_moments_sort_later(one: int, other: int) -> None:
    assert (str(iso(one)) < str(iso(other))) == (one < other)


@pytest.mark.parametrize("text", ["2023-11-15T00:13:20.001+02:00", "2023-11-14T22:13:20.001+00:00"])
def test_a_moment_may_come_from_another_zone(text: str) -> None:
    assert from_iso(text) == 1_700_000_000_001


def test_the_system_clock_is_the_machines() -> None:
    before = time.time()
    now = SystemClock().now()
    assert int(before * 1000) <= now <= time.time() * 1000


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(5)
    assert (clock.now(), clock.now()) == (5, 5)
    clock.advance(10)
    assert clock.now() == 15
