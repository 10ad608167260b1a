import pytest
from hypothesis import given
from hypothesis import strategies as st

from acode.policy.restart import GiveUp, Restart, RestartAfter, after_crash, consecutive
from acode.settings import Settings

DEFAULT = Restart()
PATIENT = Restart(max_restarts=10**9)

RESTARTS = st.builds(
    Restart,
    delay_ms=st.integers(0, 10**7),
    max_delay_ms=st.integers(0, 10**12),
    max_restarts=st.just(10**9),
)


def delay(restarts: int, settings: Restart = PATIENT) -> int:
    answer = after_crash(restarts, settings)
    assert isinstance(answer, RestartAfter)
    return answer.delay_ms


def test_the_defaults_are_those_of_the_settings() -> None:
    process = Settings().workers.process
    assert (
        Restart(
            delay_ms=process.restart_delay_ms,
            max_delay_ms=process.max_restart_delay_ms,
            max_restarts=process.max_restarts,
        )
        == DEFAULT
    )


@pytest.mark.req("027a-FR-021", "027a-FR-022")
def test_by_default_ten_restarts_follow_after_one_second_to_sixty() -> None:
    delays = [delay(restarts, DEFAULT) for restarts in range(10)]
    assert delays == [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000, 60_000]
    assert isinstance(after_crash(10, DEFAULT), GiveUp)


@pytest.mark.parametrize(
    ("max_restarts", "reason"),
    [
        (10, "crashed again after 10 restarts, no more are allowed"),
        (1, "crashed again after 1 restart, no more are allowed"),
        (0, "crashed again after 0 restarts, no more are allowed"),
    ],
)
def test_a_worker_that_crashes_too_often_is_given_up(max_restarts: int, reason: str) -> None:
    assert after_crash(max_restarts, Restart(max_restarts=max_restarts)) == GiveUp(reason)


def test_one_that_crashed_more_often_than_that_is_given_up_too() -> None:
    assert isinstance(after_crash(11, DEFAULT), GiveUp)


@pytest.mark.req("027a-FR-021")
@given(RESTARTS, st.integers(0, 1000))
def test_a_delay_is_twice_the_one_before_until_it_reaches_the_maximum(
    settings: Restart, restarts: int
) -> None:
    assert delay(restarts + 1, settings) == min(
        2 * delay(restarts, settings), settings.max_delay_ms
    )
    assert delay(0, settings) == min(settings.delay_ms, settings.max_delay_ms)


@pytest.mark.req("027a-FR-022")
@given(st.integers(0, 10**8))
def test_no_number_of_restarts_makes_a_delay_longer_than_a_minute(restarts: int) -> None:
    assert delay(restarts) <= 60_000


@pytest.mark.parametrize(("delay_ms", "expected"), [(1, 10**12), (0, 0), (10**12, 10**12)])
def test_no_number_of_restarts_is_too_large(delay_ms: int, expected: int) -> None:
    settings = Restart(delay_ms=delay_ms, max_delay_ms=10**12, max_restarts=10**18)
    assert delay(10**17, settings) == expected


@pytest.mark.parametrize(
    ("ran_for_ms", "counted"), [(-5, 7), (0, 7), (599_999, 7), (600_000, 0), (10**9, 0)]
)
def test_a_worker_that_ran_ten_minutes_is_counted_anew(ran_for_ms: int, counted: int) -> None:
    assert consecutive(7, ran_for_ms, DEFAULT) == counted


def test_a_worker_that_crashes_now_and_then_is_never_given_up() -> None:
    restarts = 0
    for _ in range(100):
        restarts = consecutive(restarts, 600_000, DEFAULT)
        assert delay(restarts, DEFAULT) == 1000
        restarts += 1


def test_a_worker_that_crashes_at_once_is_started_eleven_times() -> None:
    starts = 1
    restarts = 0
    while isinstance(after_crash(restarts, DEFAULT), RestartAfter):
        starts += 1
        restarts = consecutive(restarts + 1, 50, DEFAULT)
    assert starts == 11


@pytest.mark.parametrize(
    "wrong",
    [{"delay_ms": -1}, {"max_delay_ms": -1}, {"max_restarts": -1}, {"healthy_after_ms": 0}],
    ids=str,
)
def test_senseless_settings_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="restart"):
        Restart(**wrong)
