from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acode.model.state import WORKER_MOVES, WorkerStatus
from acode.policy.scaling import Autoscale, Stoppable, choose_to_stop, clamp, decide
from acode.settings import Settings

NOW = 1_700_000_000_000
DEFAULT = Autoscale()
COOLDOWN = DEFAULT.cooldown_ms


def target(total: int, active: int, settings: Autoscale = DEFAULT) -> int:
    return decide(total, active, None, NOW, settings).target


# The settings


@pytest.mark.req("forge-14")
def test_the_pool_scales_by_default_as_documented() -> None:
    assert msgspec.to_builtins(DEFAULT) == {
        "min": 2,
        "max": 20,
        "initial": 5,
        "scaleUpThreshold": 0.8,
        "scaleDownThreshold": 0.2,
        "scaleUpStep": 2,
        "scaleDownStep": 1,
        "intervalMs": 30_000,
        "cooldownMs": 60_000,
    }


@pytest.mark.req("forge-14")
def test_the_settings_file_has_the_same_keys_and_defaults() -> None:
    settings = msgspec.to_builtins(Settings().autoscale)
    assert settings.pop("enabled") is False
    assert msgspec.convert(settings, Autoscale) == DEFAULT
    assert settings == msgspec.to_builtins(DEFAULT)


@pytest.mark.parametrize(
    "wrong",
    [
        {"min": 0},
        {"min": 6},
        {"initial": 21},
        {"initial": 1},
        {"max": 4},
        {"scale_down_threshold": 0.8},
        {"scale_down_threshold": -0.1},
        {"scale_up_threshold": 1.1},
        {"scale_up_threshold": float("nan")},
        {"scale_up_step": 0},
        {"scale_down_step": 0},
        {"interval_ms": 0},
        {"cooldown_ms": -1},
    ],
    ids=str,
)
def test_senseless_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="autoscale"):
        Autoscale(**wrong)


# The algorithm


@pytest.mark.req("forge-15")
@pytest.mark.parametrize(
    ("total", "active", "expected"),
    [
        (5, 5, 7),
        (9, 8, 11),
        (18, 18, 20),
        (19, 19, 20),
        (20, 20, 20),
        (5, 4, 5),
        (10, 8, 10),
        (5, 3, 5),
        (5, 2, 5),
        (5, 1, 5),
        (10, 2, 10),
        (6, 1, 5),
        (5, 0, 4),
        (3, 0, 2),
        (2, 0, 2),
    ],
)
def test_it_grows_above_four_fifths_and_shrinks_below_one_fifth(
    total: int, active: int, expected: int
) -> None:
    assert target(total, active) == expected


@pytest.mark.req("forge-15")
def test_exactly_at_a_threshold_nothing_happens() -> None:
    shares = [(active, total) for total in range(1, 101) for active in range(1, total)]
    for active, total in shares:
        upper = Autoscale(min=1, max=200, scale_up_threshold=active / total, scale_down_threshold=0)
        lower = Autoscale(min=1, max=200, scale_down_threshold=active / total, scale_up_threshold=1)
        assert target(total, active, upper) == target(total, active, lower) == total


@pytest.mark.req("forge-15")
@pytest.mark.parametrize(
    ("since", "expected"), [(0, 5), (1, 5), (COOLDOWN - 1, 5), (COOLDOWN, 7), (COOLDOWN + 1, 7)]
)
def test_nothing_changes_inside_the_cooldown(since: int, expected: int) -> None:
    assert decide(5, 5, NOW - since, NOW, DEFAULT).target == expected


def test_without_a_cooldown_it_scales_every_time() -> None:
    assert decide(5, 5, NOW, NOW, Autoscale(cooldown_ms=0)).target == 7


def test_a_clock_that_was_set_back_does_not_hold_the_pool() -> None:
    assert decide(5, 5, NOW + 3_600_000, NOW, DEFAULT).target == 7


@pytest.mark.parametrize("last_scaled_at", [None, NOW - 1])
@pytest.mark.parametrize(("total", "expected"), [(0, 2), (1, 2), (21, 20), (100, 20)])
def test_a_pool_outside_its_bounds_comes_back_at_once(
    total: int, expected: int, last_scaled_at: int | None
) -> None:
    assert decide(total, total // 2, last_scaled_at, NOW, DEFAULT).target == expected


@pytest.mark.parametrize(
    ("total", "active", "since", "reason"),
    [
        (5, 5, None, "5 of 5 workers busy (100 %), above 80 %; 2 more"),
        (9, 8, None, "8 of 9 workers busy (88.9 %), above 80 %; 2 more"),
        (20, 20, None, "20 of 20 workers busy (100 %), above 80 %; the maximum is reached"),
        (6, 1, None, "1 of 6 workers busy (16.7 %), below 20 %; 1 fewer"),
        (2, 0, None, "0 of 2 workers busy (0 %), below 20 %; the minimum is reached"),
        (5, 4, None, "4 of 5 workers busy (80 %); as many as needed"),
        (5, 4, 1, "4 of 5 workers busy (80 %); as many as needed"),
        (
            5,
            5,
            17_500,
            "5 of 5 workers busy (100 %); not scaled to 7, inside the cooldown for another 42.5 s",
        ),
        (0, 0, None, "the pool has 0 workers, its minimum is 2"),
        (1, 1, None, "the pool has 1 worker, its minimum is 2"),
        (21, 0, None, "the pool has 21 workers, its maximum is 20"),
    ],
)
def test_the_reason_is_a_sentence(total: int, active: int, since: int | None, reason: str) -> None:
    last_scaled_at = None if since is None else NOW - since
    assert decide(total, active, last_scaled_at, NOW, DEFAULT).reason == reason


@st.composite
def autoscales(draw: st.DrawFn) -> Autoscale:
    low, initial, high = sorted(draw(st.tuples(*[st.integers(1, 40)] * 3)))
    down, up = sorted(draw(st.lists(st.floats(0, 1), min_size=2, max_size=2, unique=True)))
    return Autoscale(
        min=low,
        max=high,
        initial=initial,
        scale_up_threshold=up,
        scale_down_threshold=down,
        scale_up_step=draw(st.integers(1, 10)),
        scale_down_step=draw(st.integers(1, 10)),
        cooldown_ms=draw(st.integers(0, 1000)),
    )


@pytest.mark.req("forge-15")
@given(
    autoscales(),
    st.integers(0, 60),
    st.floats(0, 1),
    st.none() | st.integers(NOW - 2000, NOW + 10),
)
def test_the_target_never_leaves_the_bounds(
    settings: Autoscale, total: int, share: float, last_scaled_at: int | None
) -> None:
    decision = decide(total, round(share * total), last_scaled_at, NOW, settings)
    assert settings.min <= decision.target <= settings.max
    assert decision.reason


@pytest.mark.req("forge-15")
@given(autoscales(), st.data())
def test_a_step_is_never_larger_than_it_may_be_and_in_the_right_direction(
    settings: Autoscale, data: st.DataObject
) -> None:
    total = data.draw(st.integers(settings.min, settings.max))
    active = data.draw(st.integers(0, total))
    change = target(total, active, settings) - total
    assert -settings.scale_down_step <= change <= settings.scale_up_step
    if change > 0:
        assert active / total > settings.scale_up_threshold
    if change < 0:
        assert active / total < settings.scale_down_threshold


@pytest.mark.req("forge-15")
@given(autoscales(), st.lists(st.tuples(st.integers(0, 700), st.floats(0, 1)), max_size=60))
def test_it_never_flaps_inside_the_cooldown(
    settings: Autoscale, ticks: list[tuple[int, float]]
) -> None:
    total, now, last_scaled_at = settings.initial, NOW, None
    scaled: list[int] = []
    for wait, share in ticks:
        now += wait
        decision = decide(total, round(share * total), last_scaled_at, now, settings)
        if decision.target != total:
            total, last_scaled_at = decision.target, now
            scaled.append(now)
    assert all(later - earlier >= settings.cooldown_ms for earlier, later in pairwise(scaled))


@pytest.mark.req("forge-15")
def test_a_busy_pool_grows_to_its_maximum_and_a_quiet_one_shrinks_to_its_minimum() -> None:
    sizes = [5]
    while (size := target(sizes[-1], sizes[-1])) != sizes[-1]:
        sizes.append(size)
    assert sizes == [5, 7, 9, 11, 13, 15, 17, 19, 20]
    while (size := target(sizes[-1], 0)) != sizes[-1]:
        sizes.append(size)
    assert sizes[8:] == list(range(20, 1, -1))


# Scaling by hand


@pytest.mark.parametrize(
    ("count", "allowed", "message"),
    [
        (1, 1, None),
        (8, 8, None),
        (32, 32, None),
        (33, 32, "scaled to 32 instead of 33: 32 is the maximum"),
        (0, 1, "scaled to 1 instead of 0: 1 is the minimum"),
        (-5, 1, "scaled to 1 instead of -5: 1 is the minimum"),
    ],
)
def test_a_count_outside_the_bounds_becomes_the_nearest_and_the_user_is_told(
    count: int, allowed: int, message: str | None
) -> None:
    assert clamp(count, 1, 32) == (allowed, message)


# Who goes


def worker(name: str, status: str, started_at: int | None = 0, load: int = 0) -> Stoppable:
    return Stoppable(name, WorkerStatus(status), started_at, load)


MIXED = [
    worker("busy-old", "busy", 1),
    worker("idle-old", "idle", 1),
    worker("starting", "starting", 9),
    worker("busy-new", "busy", 8),
    worker("idle-new", "idle", 5),
]


@pytest.mark.parametrize(
    ("count", "gone"),
    [
        (-1, []),
        (0, []),
        (1, ["idle-new"]),
        (2, ["idle-new", "idle-old"]),
        (3, ["idle-new", "idle-old", "starting"]),
        (4, ["idle-new", "idle-old", "starting", "busy-new"]),
        (99, ["idle-new", "idle-old", "starting", "busy-new", "busy-old"]),
    ],
)
def test_idle_workers_go_first_then_starting_then_busy_the_newest_first(
    count: int, gone: list[str]
) -> None:
    assert choose_to_stop(MIXED, count) == gone


def test_workers_that_run_nothing_go_before_busy_ones() -> None:
    workers = [
        worker(status, status) for status in ("busy", "error", "starting", "crashed", "idle")
    ]
    assert choose_to_stop(workers, 5) == ["idle", "crashed", "starting", "error", "busy"]


def test_one_that_has_not_even_started_is_the_newest() -> None:
    workers = [worker("a", "starting", 10**15), worker("b", "starting", None)]
    assert choose_to_stop(workers, 1) == ["b"]


def test_of_workers_as_old_the_least_used_goes_first() -> None:
    workers = [worker("a", "idle", 1, load=7), worker("b", "idle", 1, load=2)]
    assert choose_to_stop(workers, 1) == ["b"]


def test_whoever_goes_already_is_not_counted() -> None:
    workers = [worker(status, status) for status in ("stopping", "stopped", "failed", "busy")]
    assert choose_to_stop(workers, 4) == ["busy"]


STOPPABLES = st.lists(
    st.builds(
        Stoppable,
        st.text("abcdef", min_size=1, max_size=4),
        st.sampled_from(WorkerStatus),
        st.none() | st.integers(0, 5),
        st.integers(0, 3),
    ),
    unique_by=lambda one: one.id,
)


def can_go(status: WorkerStatus) -> bool:
    """Whether a worker in this state can still be told to go."""
    going = {WorkerStatus.STOPPING, WorkerStatus.STOPPED, WorkerStatus.FAILED}
    return status not in going and not going.isdisjoint(WORKER_MOVES[status])


@given(STOPPABLES, st.integers(-1, 20), st.randoms())
def test_as_many_go_as_asked_for_and_in_the_same_order_whoever_is_told_first(
    workers: list[Stoppable], count: int, random: Any
) -> None:
    gone = choose_to_stop(workers, count)
    able = [one for one in workers if can_go(one.status)]
    assert len(gone) == len(set(gone)) == max(0, min(count, len(able)))
    shuffled = random.sample(workers, len(workers))
    assert choose_to_stop(shuffled, count) == gone


@given(STOPPABLES, st.integers(0, 20))
def test_nobody_busy_goes_while_somebody_idle_stays(workers: list[Stoppable], count: int) -> None:
    gone = set(choose_to_stop(workers, count))
    staying = {one.status for one in workers if one.id not in gone}
    leaving = {one.status for one in workers if one.id in gone}
    assert not (WorkerStatus.BUSY in leaving and WorkerStatus.IDLE in staying)
