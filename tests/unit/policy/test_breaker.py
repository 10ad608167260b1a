from itertools import pairwise

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from acode.model.ending import Cancelled, Ending, Exited, Lost, OverLimit, Released, TimedOut
from acode.model.failure import Category, Failure, FailureCode
from acode.policy.breaker import (
    CIRCUIT_MOVES,
    UNLIMITED,
    Breaker,
    CircuitState,
    CircuitStatus,
    Closed,
    HalfOpen,
    Open,
    abandoned,
    admits,
    counts_as_failure,
    failed,
    started,
    succeeded,
)
from acode.policy.failures import explain

NOW = 1_700_000_000_000
DEFAULT = Breaker()


def after_failures(count: int) -> CircuitState:
    state: CircuitState = Closed()
    for _ in range(count):
        state = failed(state, DEFAULT, NOW)
    return state


@pytest.mark.req("forge-22", "lld-21")
def test_by_default_five_failures_open_it_for_thirty_seconds_and_two_probes_may_follow() -> None:
    assert admits(after_failures(4), DEFAULT, NOW) == UNLIMITED
    opened = after_failures(5)
    assert opened == Open(since=NOW)
    assert admits(opened, DEFAULT, NOW + 29_999) == 0
    assert admits(opened, DEFAULT, NOW + 30_000) == 2
    one = started(opened, DEFAULT, NOW + 30_000)
    assert (one, admits(one, DEFAULT, NOW + 30_000)) == (HalfOpen(1), 1)
    two = started(one, DEFAULT, NOW + 30_001)
    assert (two, admits(two, DEFAULT, NOW + 90_000)) == (HalfOpen(2), 0)


@pytest.mark.req("lld-21")
def test_a_success_resets_the_count() -> None:
    state = succeeded(after_failures(4))
    assert state == Closed(failures=0)
    assert failed(state, DEFAULT, NOW) == Closed(failures=1)


@pytest.mark.req("lld-21")
def test_a_probe_that_succeeds_closes_it() -> None:
    assert succeeded(HalfOpen(2)) == Closed(failures=0)


@pytest.mark.req("lld-21")
def test_a_probe_that_fails_opens_it_for_another_timeout() -> None:
    state = failed(HalfOpen(2), DEFAULT, NOW)
    assert state == Open(since=NOW)
    assert admits(state, DEFAULT, NOW + 29_999) == 0


def test_a_probe_that_tells_nothing_gives_its_place_to_another() -> None:
    assert abandoned(HalfOpen(2)) == HalfOpen(1)
    assert abandoned(HalfOpen(0)) == HalfOpen(0)


def test_tasks_from_before_it_opened_change_nothing_while_it_is_open() -> None:
    state = Open(since=NOW)
    assert succeeded(state) == failed(state, DEFAULT, NOW + 1) == abandoned(state) == state
    assert started(state, DEFAULT, NOW + 1) == state


def test_a_clock_that_was_set_back_does_not_keep_it_open() -> None:
    assert admits(Open(since=NOW), DEFAULT, NOW - 3_600_000) == 2


@pytest.mark.parametrize(
    "wrong",
    [{"failure_threshold": 0}, {"recovery_timeout_ms": -1}, {"half_open_requests": 0}],
    ids=str,
)
def test_a_breaker_that_could_never_work_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="breaker"):
        Breaker(**wrong)


@pytest.mark.parametrize("state", [Closed(3), Open(NOW), HalfOpen(1)])
def test_a_state_survives_the_wire(state: CircuitState) -> None:
    encoded = msgspec.json.encode(state)
    assert msgspec.json.decode(encoded, type=CircuitState) == state
    assert msgspec.json.decode(encoded)["type"] == state.status


def test_the_table_of_moves_is_closed() -> None:
    assert set(CIRCUIT_MOVES) == set(CircuitStatus)
    assert {status for after in CIRCUIT_MOVES.values() for status in after} == set(CircuitStatus)


@pytest.mark.parametrize(
    ("ending", "anywhere", "in_workstream"),
    [
        (Exited(0), False, False),
        (Exited(1), False, True),
        (Exited(75), True, True),
        (Exited(78), False, True),
        (TimedOut(5), True, True),
        (Lost("killed"), True, True),
        (OverLimit("memoryMb", 1, 2), False, False),
        (Cancelled(), False, False),
        (Released("drain"), False, False),
    ],
)
def test_what_the_circuit_counts(ending: Ending, anywhere: bool, in_workstream: bool) -> None:
    failure = explain(ending)
    assert counts_as_failure(failure, in_named_workstream=False) is anywhere
    assert counts_as_failure(failure, in_named_workstream=True) is in_workstream


@pytest.mark.parametrize("category", Category)
def test_a_cancelled_task_never_counts(category: Category) -> None:
    cancelled = Failure(FailureCode.CANCELLED, category, "enough")
    assert not counts_as_failure(cancelled, in_named_workstream=True)


class Model:
    """The circuit told as a story of moments and streaks."""

    def __init__(self, breaker: Breaker) -> None:
        self.breaker = breaker
        self.close()

    def close(self) -> None:
        self.streak = self.probes = 0
        self.opened_at: int | None = None
        self.probing = False

    def admits(self, now: int) -> int:
        if self.opened_at is None:
            return UNLIMITED
        if not self.probing and now - self.opened_at < self.breaker.recovery_timeout_ms:
            return 0
        return max(0, self.breaker.half_open_requests - self.probes)

    def start(self) -> None:
        if self.opened_at is not None:
            self.probing = True
            self.probes += 1

    def succeed(self) -> None:
        if self.status != "open":
            self.close()

    def fail(self, now: int) -> None:
        self.streak += 1
        broken = self.status == "closed" and self.streak == self.breaker.failure_threshold
        if self.probing or broken:
            self.opened_at, self.probing, self.probes = now, False, 0

    def abandon(self) -> None:
        self.probes = max(0, self.probes - 1)

    @property
    def status(self) -> str:
        if self.opened_at is None:
            return "closed"
        return "halfOpen" if self.probing else "open"


class CircuitMachine(RuleBasedStateMachine):
    """Tasks start as the circuit admits them and end in any order, long after it has changed."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.under_way = 0
        self.seen: list[CircuitState] = [Closed()]

    @property
    def state(self) -> CircuitState:
        return self.seen[-1]

    @initialize(
        breaker=st.builds(
            Breaker,
            failure_threshold=st.integers(1, 4),
            recovery_timeout_ms=st.integers(0, 100),
            half_open_requests=st.integers(1, 3),
        )
    )
    def choose(self, breaker: Breaker) -> None:
        self.breaker = breaker
        self.model = Model(breaker)

    @rule(ms=st.integers(0, 120))
    def wait(self, ms: int) -> None:
        self.now += ms

    @precondition(lambda self: admits(self.state, self.breaker, self.now) > 0)
    @rule()
    def start(self) -> None:
        self.under_way += 1
        self.model.start()
        self.seen.append(started(self.state, self.breaker, self.now))

    @precondition(lambda self: self.under_way > 0)
    @rule()
    def succeed(self) -> None:
        self.under_way -= 1
        self.model.succeed()
        self.seen.append(succeeded(self.state))

    @precondition(lambda self: self.under_way > 0)
    @rule()
    def fail(self) -> None:
        self.under_way -= 1
        self.model.fail(self.now)
        self.seen.append(failed(self.state, self.breaker, self.now))

    @precondition(lambda self: self.under_way > 0)
    @rule()
    def abandon(self) -> None:
        self.under_way -= 1
        self.model.abandon()
        self.seen.append(abandoned(self.state))

    @invariant()
    def the_model_agrees(self) -> None:
        assert self.state.status == self.model.status
        assert admits(self.state, self.breaker, self.now) == self.model.admits(self.now)

    @invariant()
    def every_move_is_legal(self) -> None:
        for was, became in pairwise(self.seen[-2:]):
            if was.status != became.status:
                assert became.status in CIRCUIT_MOVES[was.status]

    @invariant()
    def it_never_holds_tasks_for_ever(self) -> None:
        if not self.under_way:
            assert admits(self.state, self.breaker, self.now + self.breaker.recovery_timeout_ms)


TestCircuitMachine = CircuitMachine.TestCase
