from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acode.policy.polling import Polling, next_rest
from acode.settings import Settings

DEFAULT = Polling()
SECOND, MAX = DEFAULT.poll_interval_ms, DEFAULT.max_ms

POLLINGS = st.builds(
    Polling,
    poll_interval_ms=st.integers(1, 10**6),
    max_ms=st.integers(1, 10**7),
    factor=st.floats(1, 100),
)
RESTS = st.integers(0, 10**12)
READY = st.none() | st.integers(-(10**6), 10**9)


def rests(polls: int, settings: Polling = DEFAULT) -> list[int]:
    """The rests after so many empty polls in a row, the first one after a claim."""
    found = [next_rest(0, True, settings)]
    for _ in range(polls):
        found.append(next_rest(found[-1], False, settings))
    return found


def test_the_defaults_are_those_of_the_settings() -> None:
    workers = Settings().workers
    assert (
        Polling(poll_interval_ms=workers.poll_interval_ms, max_ms=workers.idle_backoff_max_ms)
        == DEFAULT
    )


@pytest.mark.req("027-FR-051", "027-FR-052")
@pytest.mark.req("027-FR-050")
def test_an_idle_pool_asks_less_and_less_often_down_to_every_thirty_seconds() -> None:
    assert rests(11) == [
        1000, 1500, 2250, 3375, 5063, 7595, 11_393, 17_090, 25_635, 30_000, 30_000, 30_000
    ]  # fmt: skip


@pytest.mark.parametrize("previous_ms", [0, 1, SECOND, MAX, 10**15])
@pytest.mark.req("027-FR-053")
def test_a_claim_starts_it_over(previous_ms: int) -> None:
    assert next_rest(previous_ms, True, DEFAULT) == SECOND


def test_the_first_rest_of_all_is_the_poll_interval() -> None:
    assert next_rest(0, False, DEFAULT) == SECOND


@pytest.mark.parametrize("found_work", [True, False])
@pytest.mark.parametrize(("ready_in", "rest"), [(1, 1), (5, 5), (999, 999)])
def test_it_wakes_when_the_next_delayed_task_becomes_ready(
    ready_in: int, rest: int, found_work: bool
) -> None:
    assert next_rest(MAX, found_work, DEFAULT, ready_in) == rest


def test_a_delayed_task_far_away_changes_nothing() -> None:
    assert next_rest(2000, False, DEFAULT, 10**9) == 3000


@pytest.mark.parametrize("overdue", [0, -1, -(10**9)])
def test_a_task_that_is_ready_and_held_does_not_make_it_spin(overdue: int) -> None:
    assert next_rest(MAX, False, DEFAULT, overdue) == SECOND
    assert next_rest(1, False, DEFAULT, overdue) == SECOND


def test_a_rest_that_was_cut_short_does_not_make_the_next_ones_short() -> None:
    cut = next_rest(MAX, False, DEFAULT, 3)
    assert (cut, next_rest(cut, False, DEFAULT)) == (3, SECOND)


def test_a_pool_that_polls_every_millisecond_slows_down_too() -> None:
    assert rests(5, Polling(poll_interval_ms=1, max_ms=8)) == [1, 2, 3, 5, 8, 8]


def test_the_maximum_holds_even_if_the_interval_is_longer() -> None:
    assert rests(3, Polling(poll_interval_ms=1000, max_ms=500)) == [500] * 4


def test_a_factor_of_one_keeps_the_interval() -> None:
    assert rests(3, Polling(factor=1)) == [1000] * 4


def test_no_factor_is_too_large() -> None:
    assert next_rest(SECOND, False, Polling(factor=1e308)) == MAX


@pytest.mark.req("027-FR-052")
@given(RESTS, st.booleans(), POLLINGS, READY)
def test_a_rest_is_at_least_a_millisecond_and_at_most_the_maximum(
    previous_ms: int, found_work: bool, settings: Polling, ready_in: int | None
) -> None:
    assert 1 <= next_rest(previous_ms, found_work, settings, ready_in) <= settings.max_ms


@given(RESTS, st.booleans(), POLLINGS, st.integers(1, 10**9))
def test_it_never_sleeps_past_the_next_delayed_task(
    previous_ms: int, found_work: bool, settings: Polling, ready_in: int
) -> None:
    free = next_rest(previous_ms, found_work, settings)
    assert next_rest(previous_ms, found_work, settings, ready_in) == min(free, ready_in)


@pytest.mark.req("027-FR-051")
@given(POLLINGS)
def test_each_empty_poll_multiplies_the_rest_until_the_maximum(settings: Polling) -> None:
    previous = next_rest(0, True, settings)
    for _ in range(20):
        rest = next_rest(previous, False, settings)
        assert rest == settings.max_ms or 0 <= rest - previous * settings.factor < 1
        previous = rest


@pytest.mark.parametrize(
    "wrong",
    [
        {"poll_interval_ms": 0},
        {"max_ms": 0},
        {"factor": 0.9},
        {"factor": float("nan")},
        {"factor": float("inf")},
    ],
    ids=str,
)
def test_senseless_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="polling"):
        Polling(**wrong)
