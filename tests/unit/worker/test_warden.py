"""The warden of an attempt, with a test in the place of the attempt and of the kernel."""

import signal
from pathlib import Path
from typing import Any, cast

import pytest

from acode.clock import SystemClock
from acode.model.ending import Ending, Exited, OverLimit, Signalled, Usage
from acode.model.limits import (
    CPU,
    DISK,
    MEMORY,
    PROCESSES,
    AttemptLimits,
    Over,
    OverLimitAction,
)
from acode.runner.group import Counters
from acode.worker.bounds import Bounds
from acode.worker.warden import LEAST_DUTY, Warden

WARN, THROTTLE, KILL = OverLimitAction


class Kernel:
    """Bounds that count what the test says."""

    def __init__(self, *enforced: str) -> None:
        self.enforced = frozenset(enforced)
        self.counters = Counters(0, 0, 0)
        self.group = None

    def begin(self, limits: AttemptLimits) -> None:
        self.limits = limits

    def counted(self, *, is_over: bool = False) -> Counters:  # noqa: ARG002 -- the same either way
        return self.counters


class Attempt:
    """Remembers everything that its warden does."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.told: list[tuple[Over, OverLimitAction]] = []
        self.ended: list[OverLimit] = []
        self.signals: list[signal.Signals] = []

    def on_remark(self, tag: str, text: str) -> None:
        self.lines.append(f"{tag} {text}")

    def on_over_limit(self, over: Over, action: OverLimitAction) -> None:
        self.told.append((over, action))

    def end_over_limit(self, ending: OverLimit) -> None:
        self.ended.append(ending)

    def signal(self, number: signal.Signals) -> None:
        self.signals.append(number)


class Stage:
    """A warden and everybody whom it deals with."""

    def __init__(
        self, action: OverLimitAction, *enforced: str, directory: Path | None = None, **limits: Any
    ) -> None:
        self.attempt = Attempt()
        self.kernel = Kernel(*enforced)
        self.now = 100.0
        self.warden = Warden(
            AttemptLimits(action=action, **limits),
            cast("Bounds", self.kernel),
            (str(directory),) if directory else (),
            self.attempt,
            SystemClock(),
        )
        self.warden.begin()


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Any:
    class Time:
        now = 100.0

    monkeypatch.setattr("acode.worker.warden.ticks", lambda: Time.now)
    return Time


def test_a_warning_is_given_once_for_each_limit() -> None:
    stage = Stage(WARN)
    for _ in range(3):
        stage.warden.exceeded(Over(MEMORY, 512, 600), WARN)
        stage.warden.exceeded(Over(CPU, 25, 99), WARN)
    assert stage.attempt.lines == [
        "W WORKER-005: over its limit: memoryMb is 600, the limit is 512; it goes on",
        "W WORKER-005: over its limit: cpuPercent is 99, the limit is 25; it goes on",
    ]
    assert not stage.attempt.ended
    assert not stage.attempt.signals


def test_to_be_killed_is_an_ending_with_the_limit_and_what_was_used() -> None:
    stage = Stage(KILL)
    stage.warden.exceeded(Over(DISK, 10, 12.5), KILL)
    assert stage.attempt.ended == [OverLimit(DISK, 10, 12.5)]


def test_a_fork_that_the_kernel_refused_is_told_of(time: Any) -> None:
    stage = Stage(WARN, PROCESSES)
    stage.kernel.counters = Counters(0, 7, 0)
    for _ in range(3):
        time.now += 1.1
        stage.warden.on_time()
    assert stage.attempt.told == [(Over(PROCESSES, 50, 51), WARN)]


def test_a_process_that_the_kernel_killed_is_the_end_of_all(time: Any) -> None:
    stage = Stage(KILL, MEMORY, memory_mb=64)
    stage.kernel.counters = Counters(1, 0, 0)
    time.now += 1.1
    stage.warden.on_time()
    assert stage.attempt.ended == [OverLimit(MEMORY, 64, 64, oom=True)]


def test_who_is_throttled_by_the_kernel_is_told_so_and_left_alone(time: Any) -> None:
    stage = Stage(THROTTLE, CPU)
    stage.kernel.counters = Counters(0, 0, 3)
    for _ in range(3):
        time.now += 1.1
        stage.warden.on_time()
    assert stage.attempt.lines == ["W WORKER-005: slowed down to 25 % CPU"]
    assert stage.attempt.signals == []


def share_of_time(stage: Stage, time: Any, seconds: float) -> float:
    """How much of the time a throttled attempt may run."""
    running, until, before = 0.0, time.now + seconds, time.now
    while time.now < until:
        time.now = min(until, max(time.now, stage.warden.deadline))
        stage.warden.on_time()
        stands = stage.attempt.signals[-2:-1] == [signal.SIGSTOP]
        running += 0.0 if stands else time.now - before
        before = time.now
    return running / seconds


@pytest.mark.req("027-FR-064")
def test_without_a_group_it_runs_and_stands_still_in_turns(time: Any) -> None:
    stage = Stage(THROTTLE, cpu_percent=25)
    stage.warden.exceeded(Over(CPU, 25, 100), THROTTLE)
    share_of_time(stage, time, 1)
    assert share_of_time(stage, time, 10) == pytest.approx(0.25, abs=0.08)
    assert set(stage.attempt.signals) == {signal.SIGSTOP, signal.SIGCONT}


def test_it_steers_towards_the_limit_from_both_sides(time: Any) -> None:
    stage = Stage(THROTTLE, cpu_percent=20)
    demand, used = 3.0, 300.0
    for _ in range(12):
        stage.warden.exceeded(Over(CPU, 20, used), THROTTLE)
        used = demand * 100 * share_of_time(stage, time, 2)
    assert used == pytest.approx(20, abs=8)
    demand = 0.1
    for _ in range(12):
        stage.warden.exceeded(Over(CPU, 20, used), THROTTLE)
        used = demand * 100 * share_of_time(stage, time, 2)
    # It needs less than it may have: it runs all the time.
    assert used == pytest.approx(10, abs=1)
    assert LEAST_DUTY < 0.05


def test_whoever_is_let_go_stands_still_no_more(time: Any) -> None:
    stage = Stage(THROTTLE)
    stage.warden.exceeded(Over(CPU, 25, 1000), THROTTLE)
    while stage.attempt.signals[-1:] != [signal.SIGSTOP]:
        time.now = stage.warden.deadline
        stage.warden.on_time()
    stage.warden.let_go()
    assert stage.attempt.signals[-1] is signal.SIGCONT
    before = len(stage.attempt.signals)
    time.now += 10
    stage.warden.on_time()
    assert len(stage.attempt.signals) == before


def test_what_is_written_is_looked_at_every_second(tmp_path: Path, time: Any) -> None:
    stage = Stage(KILL, directory=tmp_path, disk_mb=1)
    (tmp_path / "small").write_bytes(bytes(100_000))
    time.now += 1.1
    stage.warden.on_time()
    assert 100_000 <= stage.warden.disk_bytes < 200_000
    assert not stage.attempt.ended
    (tmp_path / "large").write_bytes(bytes(2_000_000))
    time.now += 2
    stage.warden.on_time()
    (ending,) = stage.attempt.ended
    assert (ending.what, ending.limit) == (DISK, 1)
    assert ending.used == pytest.approx(2.0, abs=0.2)


def test_before_the_command_begins_nothing_is_its_own(tmp_path: Path, time: Any) -> None:
    stage = Stage(KILL, directory=tmp_path, disk_mb=1)
    fresh = Warden(
        AttemptLimits(action=KILL, disk_mb=1),
        cast("Bounds", stage.kernel),
        (str(tmp_path),),
        stage.attempt,
        SystemClock(),
    )
    (tmp_path / "checkout").write_bytes(bytes(3_000_000))
    time.now += 5
    fresh.on_time()
    assert not stage.attempt.ended


OOM = Counters(1, 0, 0)
SIGKILL = Signalled(signal.SIGKILL)


@pytest.mark.parametrize(
    ("action", "enforced", "counted", "ending", "cause"),
    [
        (KILL, (MEMORY,), OOM, SIGKILL, OverLimit(MEMORY, 64, 64, oom=True)),
        (KILL, (MEMORY,), OOM, Exited(137), OverLimit(MEMORY, 64, 64, oom=True)),
        (KILL, (MEMORY,), OOM, Exited(0), OverLimit(MEMORY, 64, 64, oom=True)),
        (WARN, (), OOM, SIGKILL, Signalled(9, oom=True)),
        (WARN, (), OOM, Exited(137), Signalled(9, oom=True)),
        (WARN, (), OOM, Exited(2), Signalled(9, oom=True)),
        (WARN, (), OOM, Exited(0), Exited(0)),
        (WARN, (), Counters(0, 0, 0), Exited(137), Exited(137)),
        (WARN, (), Counters(0, 0, 0), SIGKILL, SIGKILL),
        (KILL, (), Counters(0, 0, 0), Signalled(signal.SIGXFSZ), OverLimit(DISK, 1024, 1024)),
        (KILL, (), Counters(0, 0, 0), Exited(1), Exited(1)),
    ],
)
def test_the_cause_of_death_needs_a_proof(
    action: OverLimitAction,
    enforced: tuple[str, ...],
    counted: Counters,
    ending: Ending,
    cause: Ending,
) -> None:
    stage = Stage(action, *enforced, memory_mb=64)
    stage.kernel.counters = counted
    assert stage.warden.cause(ending, killed=False) == cause
    assert stage.warden.cause(ending, killed=True) == ending


def test_without_a_group_usage_is_what_the_course_says() -> None:
    assert Stage(WARN).warden.usage(Usage(1.5, 77)) == Usage(1.5, 77)
