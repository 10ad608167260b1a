import pytest
from hypothesis import given
from hypothesis import strategies as st

from acode.model.limits import (
    CPU,
    DISK,
    MEGABYTE,
    MEMORY,
    PROCESSES,
    AttemptLimits,
    Over,
    OverLimitAction,
)
from acode.model.task import TaskLimits
from acode.policy.limits import Ceiling, Ceilings, Sampled, action_on, granted, overs
from acode.settings import Settings

LIMITS = AttemptLimits()
ALL = Sampled(
    cpu_percent=100, memory_bytes=600 * MEGABYTE, processes=51, disk_bytes=1025 * MEGABYTE
)
CEILINGS = Ceilings(
    Ceiling(4096, "workers.poolLimits.totalMemoryMb"),
    Ceiling(200, "workers.poolLimits.totalCpuPercent"),
    Ceiling(1024, "workers.limits.diskMb"),
)


@pytest.mark.req("forge-18", "027-FR-061", "027-FR-065")
def test_what_an_attempt_is_held_to_by_default() -> None:
    limits = Settings().workers.limits
    assert (limits.memory_mb, limits.cpu_percent) == (512, 25)
    assert (limits.max_processes, limits.max_open_files) == (50, 1024)
    assert Settings().workers.resources.over_limit_action == "warn"


@pytest.mark.req("027-FR-063")
def test_everything_over_its_limit_is_found_with_what_was_used() -> None:
    assert overs(ALL, LIMITS) == [
        Over(PROCESSES, 50, 51),
        Over(MEMORY, 512, 600),
        Over(DISK, 1024, 1025),
        Over(CPU, 25, 100),
    ]


def test_what_was_not_measured_or_is_enforced_elsewhere_is_not_judged() -> None:
    assert overs(Sampled(), LIMITS) == []
    assert overs(ALL, LIMITS, {MEMORY, PROCESSES, DISK, CPU}) == []


def test_a_measure_that_is_a_little_off_is_no_offence() -> None:
    assert overs(Sampled(cpu_percent=27), LIMITS) == []
    exactly = Sampled(memory_bytes=512 * MEGABYTE, processes=50, disk_bytes=1024 * MEGABYTE)
    assert overs(exactly, LIMITS) == []


@pytest.mark.req("027-FR-064")
def test_only_the_processor_can_be_throttled() -> None:
    warn, throttle, kill = OverLimitAction
    assert action_on(Over(CPU, 25, 99), throttle) is throttle
    assert action_on(Over(MEMORY, 512, 600), throttle) is warn
    assert action_on(Over(MEMORY, 512, 600), kill) is kill
    assert action_on(Over(CPU, 25, 99), warn) is warn


def test_a_flood_of_processes_is_ended_whatever_the_action() -> None:
    assert action_on(Over(PROCESSES, 50, 100), OverLimitAction.WARN) is OverLimitAction.WARN
    assert action_on(Over(PROCESSES, 50, 101), OverLimitAction.WARN) is OverLimitAction.KILL


@given(
    st.none() | st.integers(1, 10**6),
    st.none() | st.floats(0.1, 10**6),
    st.none() | st.integers(1, 10**6),
)
def test_a_task_gets_what_it_asks_for_and_never_more_than_the_ceiling(
    memory: int | None, cpu: float | None, disk: int | None
) -> None:
    got = granted(TaskLimits(memory, cpu, disk), LIMITS, CEILINGS)
    assert got.memory_mb == min(memory or 512, 4096)
    assert got.cpu_percent == min(cpu or 25, 200)
    assert got.disk_mb == min(disk or 1024, 1024)
    assert (got.max_processes, got.max_open_files) == (50, 1024)
