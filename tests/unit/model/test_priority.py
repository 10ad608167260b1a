import pytest
from hypothesis import given
from hypothesis import strategies as st

from acode.model.priority import MINUTE_MS, Priority, aged_level

LEVELS = st.integers(0, len(Priority) - 1)
WAITS = st.integers(0, 10**12)
AGEING = st.integers(1, 10**9)


def test_there_are_four_levels_from_high_to_background() -> None:
    assert [(priority.value, priority.level) for priority in Priority] == [
        ("high", 0),
        ("medium", 1),
        ("low", 2),
        ("background", 3),
    ]


@pytest.mark.parametrize("priority", Priority)
def test_a_level_names_its_priority(priority: Priority) -> None:
    assert Priority.at_level(priority.level) is priority


@pytest.mark.parametrize(
    ("minutes", "level"), [(0, 3), (9, 3), (10, 2), (19, 2), (20, 1), (30, 0), (300, 0)]
)
def test_a_background_task_rises_one_level_every_ten_minutes(minutes: int, level: int) -> None:
    ageing_ms = 10 * MINUTE_MS
    assert aged_level(Priority.BACKGROUND.level, minutes * MINUTE_MS, ageing_ms) == level


@given(LEVELS, WAITS)
def test_ageing_can_be_off(level: int, waited: int) -> None:
    assert aged_level(level, waited, 0) == level


@given(LEVELS, WAITS, WAITS, AGEING)
def test_waiting_never_makes_a_task_less_urgent(
    level: int, one: int, other: int, ageing: int
) -> None:
    shorter, longer = sorted((one, other))
    assert 0 <= aged_level(level, longer, ageing) <= aged_level(level, shorter, ageing) <= level


@given(LEVELS, AGEING)
def test_a_clock_that_went_back_costs_nothing_but_the_wait(level: int, ageing: int) -> None:
    assert aged_level(level, -1, ageing) == level


@given(LEVELS, AGEING, WAITS)
def test_no_task_starves(level: int, ageing: int, more: int) -> None:
    """After as many spans as it has levels, nothing that comes later goes before it."""
    waited = level * ageing + 1
    mine = (aged_level(level, waited + more, ageing), 0)
    newcomer = (aged_level(0, more, ageing), waited)
    assert mine < newcomer
