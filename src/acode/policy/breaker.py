"""The circuit breaker: stops sending tasks where they keep failing, and probes for recovery."""

import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar, Final, assert_never

import msgspec

from acode.model.failure import Category, Failure, FailureCode

UNLIMITED: Final = sys.maxsize
"""What a closed circuit admits."""


class CircuitStatus(StrEnum):
    """Where a circuit stands."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "halfOpen"


CIRCUIT_MOVES: Final[Mapping[CircuitStatus, frozenset[CircuitStatus]]] = {
    CircuitStatus.CLOSED: frozenset({CircuitStatus.OPEN}),
    CircuitStatus.OPEN: frozenset({CircuitStatus.HALF_OPEN}),
    CircuitStatus.HALF_OPEN: frozenset({CircuitStatus.CLOSED, CircuitStatus.OPEN}),
}


class Breaker(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """When a circuit opens, and how it is tried again."""

    failure_threshold: int = 5
    recovery_timeout_ms: int = 30_000
    half_open_requests: int = 2

    def __post_init__(self) -> None:
        if self.failure_threshold < 1:
            raise ValueError("the breaker's failure threshold must be at least 1")
        if self.recovery_timeout_ms < 0:
            raise ValueError("the breaker's recovery timeout must not be negative")
        if self.half_open_requests < 1:
            raise ValueError("the breaker must let at least 1 request through when half-open")


class Closed(msgspec.Struct, frozen=True, tag="closed"):
    """Tasks flow; so many have failed in a row."""

    status: ClassVar[CircuitStatus] = CircuitStatus.CLOSED
    failures: int = 0


class Open(msgspec.Struct, frozen=True, tag="open"):
    """Tasks wait until the recovery timeout has passed."""

    status: ClassVar[CircuitStatus] = CircuitStatus.OPEN
    since: int


class HalfOpen(msgspec.Struct, frozen=True, tag="halfOpen"):
    """A few tasks probe whether it works again; so many of them are under way."""

    status: ClassVar[CircuitStatus] = CircuitStatus.HALF_OPEN
    probes: int


CircuitState = Closed | Open | HalfOpen


def admits(state: CircuitState, breaker: Breaker, now: int) -> int:
    """How many tasks may start now."""
    match state:
        case Closed():
            return UNLIMITED
        case Open(since):
            return breaker.half_open_requests if _recovered(since, breaker, now) else 0
        case HalfOpen(probes):
            return max(0, breaker.half_open_requests - probes)
        case _:
            assert_never(state)


def started(state: CircuitState, breaker: Breaker, now: int) -> CircuitState:
    """A task has started; after the recovery timeout it is a probe."""
    match state:
        case Closed():
            return state
        case Open(since):
            return HalfOpen(probes=1) if _recovered(since, breaker, now) else state
        case HalfOpen(probes):
            return HalfOpen(probes + 1)
        case _:
            assert_never(state)


def succeeded(state: CircuitState) -> CircuitState:
    """A task has succeeded. One that started before the circuit opened says nothing new."""
    match state:
        case Closed() | HalfOpen():
            return Closed()
        case Open():
            return state
        case _:
            assert_never(state)


def failed(state: CircuitState, breaker: Breaker, now: int) -> CircuitState:
    """A task has failed in a way that counts."""
    match state:
        case Closed(failures):
            enough = failures + 1 >= breaker.failure_threshold
            return Open(since=now) if enough else Closed(failures + 1)
        case HalfOpen():
            return Open(since=now)
        case Open():
            return state
        case _:
            assert_never(state)


def abandoned(state: CircuitState) -> CircuitState:
    """A task has ended in a way that tells nothing, so another may probe in its place."""
    match state:
        case HalfOpen(probes):
            return HalfOpen(max(0, probes - 1))
        case Closed() | Open():
            return state
        case _:
            assert_never(state)


def _recovered(since: int, breaker: Breaker, now: int) -> bool:
    # A clock that was set back must not hold tasks until it has caught up.
    return not since <= now < since + breaker.recovery_timeout_ms


def counts_as_failure(failure: Failure | None, *, in_named_workstream: bool) -> bool:
    """Whether the circuit counts it: transient ones, in a workstream plain failed exits too."""
    if failure is None or failure.code is FailureCode.CANCELLED:
        return False
    if failure.category is Category.TRANSIENT:
        return True
    return in_named_workstream and failure.code is FailureCode.EXIT_CODE
