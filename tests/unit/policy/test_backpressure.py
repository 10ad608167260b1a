from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acode.policy.backpressure import (
    LEAST_DISK_BYTES,
    LEAST_MEMORY_BYTES,
    MB,
    Gauge,
    Load,
    PoolCeilings,
    held_by,
    hold_of,
)

CEILINGS = PoolCeilings(memory_mb=4096, cpu_percent=200)
GB = 1024 * MB
AT_EASE = Load(
    memory_bytes=16 * GB,
    available_bytes=12 * GB,
    memory_stall_percent=0.0,
    disk_bytes=500 * GB,
    disk_free_bytes=100 * GB,
)


def gauges(before: tuple[Gauge, ...] = (), **changes: Any) -> list[Gauge]:
    return [held.gauge for held in held_by(AT_EASE._replace(**changes), CEILINGS, before)]


@pytest.mark.req("027-FR-067")
def test_a_machine_at_ease_holds_nothing_back() -> None:
    assert gauges() == []
    assert hold_of([]) is None


@pytest.mark.req("forge-19", "027-FR-067", "027-FR-069")
@pytest.mark.parametrize(
    ("gauge", "pauses", "stays", "eases"),
    [
        (
            Gauge.POOL_MEMORY,
            {"pool_memory_bytes": 4096 * MB},
            {"pool_memory_bytes": 3700 * MB},
            {"pool_memory_bytes": 3600 * MB},
        ),
        (
            Gauge.POOL_CPU,
            {"pool_cpu_percent": 200.0},
            {"pool_cpu_percent": 185.0},
            {"pool_cpu_percent": 179.0},
        ),
        (
            Gauge.STALL,
            {"memory_stall_percent": 20.0},
            {"memory_stall_percent": 18.5},
            {"memory_stall_percent": 17.0},
        ),
        (
            Gauge.MEMORY,
            {"available_bytes": int(1.5 * GB)},
            {"available_bytes": int(1.9 * GB)},
            {"available_bytes": 2 * GB},
        ),
        (
            Gauge.DISK,
            {"disk_free_bytes": LEAST_DISK_BYTES - 1},
            {"disk_free_bytes": LEAST_DISK_BYTES},
            {"disk_free_bytes": 640 * MB},
        ),
    ],
    ids=lambda value: value.value if isinstance(value, Gauge) else "",
)
def test_each_gauge_pauses_at_one_mark_and_goes_on_at_another(
    gauge: Gauge, pauses: dict[str, Any], stays: dict[str, Any], eases: dict[str, Any]
) -> None:
    assert gauges(**pauses) == [gauge]
    assert gauges(**stays) == []
    assert gauges((gauge,), **stays) == [gauge]
    assert gauges((gauge,), **eases) == []


def test_what_nobody_knows_holds_nothing_back() -> None:
    assert held_by(Load(), CEILINGS) == []


def test_a_small_machine_and_a_small_disk_keep_a_share_free() -> None:
    small = AT_EASE._replace(memory_bytes=2 * GB, available_bytes=300 * MB)
    assert held_by(small, CEILINGS) == []
    tiny = AT_EASE._replace(disk_bytes=4 * MB, disk_free_bytes=1 * MB)
    assert held_by(tiny, CEILINGS) == []
    assert LEAST_MEMORY_BYTES < 16 * GB


def test_the_reason_names_the_limit_and_what_is_used() -> None:
    hold = hold_of(held_by(AT_EASE._replace(pool_memory_bytes=5000 * MB), CEILINGS))
    assert hold is not None
    assert "5000 MB" in hold.reason
    assert "workers.poolLimits.totalMemoryMb is 4096" in hold.reason


def test_a_pool_that_runs_nothing_does_not_wait_for_itself() -> None:
    ours = hold_of(held_by(AT_EASE._replace(pool_memory_bytes=5000 * MB), CEILINGS))
    theirs = hold_of(held_by(AT_EASE._replace(available_bytes=1), CEILINGS))
    assert ours is not None
    assert theirs is not None
    assert [ours.admits(running) for running in (0, 1, 2)] == [True, False, False]
    assert not theirs.admits(0)


LOADS = st.builds(
    Load,
    pool_memory_bytes=st.integers(0, 8 * GB),
    pool_cpu_percent=st.floats(0, 800),
    memory_bytes=st.just(16 * GB) | st.none(),
    available_bytes=st.integers(0, 16 * GB) | st.none(),
    memory_stall_percent=st.floats(0, 100) | st.none(),
    disk_bytes=st.just(500 * GB) | st.none(),
    disk_free_bytes=st.integers(0, 500 * GB) | st.none(),
)


@given(LOADS, st.frozensets(st.sampled_from(Gauge)))
def test_what_held_before_can_only_make_it_stricter_and_a_second_look_changes_nothing(
    load: Load, before: frozenset[Gauge]
) -> None:
    fresh = {held.gauge for held in held_by(load, CEILINGS)}
    after = {held.gauge for held in held_by(load, CEILINGS, before)}
    assert fresh <= after <= fresh | before
    assert {held.gauge for held in held_by(load, CEILINGS, after)} == after
