from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acode.model.ending import (
    Cancelled,
    Ending,
    Exited,
    Lost,
    NotStarted,
    OverLimit,
    Released,
    Signalled,
    TimedOut,
)
from acode.model.failure import Category, Failure, FailureCode
from acode.model.task import Result
from acode.model.verdict import Cancel, Complete, Fail, Release, RetryAt, Verdict
from acode.policy.failures import LONGEST_WAIT_MS
from acode.policy.retry import DEFAULT_LIMIT, POISON_CRASHES, Outcome, Retry, decide, delay_ms

NOW = 1_700_000_000_000
EVEN = 0.5
"""The draw that leaves a delay as it is."""

RETRIES = st.builds(
    Retry,
    initial_delay_ms=st.integers(0, 10**7),
    max_delay_ms=st.integers(0, 10**8),
    multiplier=st.floats(1, 100),
    jitter=st.floats(0, 1),
)
DRAWS = st.floats(0, 1, exclude_max=True)
ATTEMPTS = st.integers(1, 10**6)
ENDINGS = st.one_of(*(st.from_type(kind) for kind in get_args(Ending)))
FAILURES = st.builds(
    Failure,
    code=st.sampled_from(FailureCode),
    category=st.sampled_from(Category),
    message=st.text(min_size=1),
    retry_after_ms=st.none() | st.integers(0, 2**63 - 1),
    final=st.booleans(),
)


def failure(code: str, category: str, **more: Any) -> Failure:
    return Failure(FailureCode(code), Category(category), "it broke", **more)


def verdict_on(
    ending: Ending, attempt_count: int = 1, *, told: Failure | None = None, **more: Any
) -> Verdict:
    outcome = Outcome(ending=ending, attempt_count=attempt_count, failure=told, **more)
    return decide(outcome, Retry(), NOW, lambda: EVEN)


def attempts_until_failed(told: Failure, retry_limit: int | None) -> int:
    """How often a task that always fails so is tried."""
    for attempt_count in range(1, 1000):
        verdict = verdict_on(Exited(1), attempt_count, told=told, retry_limit=retry_limit)
        if isinstance(verdict, Fail):
            return attempt_count
        assert isinstance(verdict, RetryAt)
    raise AssertionError("it was never given up")


# Delays


@pytest.mark.req("forge-20")
def test_by_default_there_are_three_retries_after_one_two_and_four_seconds() -> None:
    verdicts = [verdict_on(TimedOut(5), attempt) for attempt in (1, 2, 3, 4)]
    waits = [verdict.ready_at - NOW for verdict in verdicts if isinstance(verdict, RetryAt)]
    assert waits == [1000, 2000, 4000]
    assert isinstance(verdicts[3], Fail)


@pytest.mark.req("forge-20")
def test_by_default_a_delay_doubles_up_to_thirty_seconds() -> None:
    delays = [delay_ms(attempt, Retry(), EVEN) for attempt in range(1, 9)]
    assert delays == [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]


@pytest.mark.parametrize(("draw", "delay"), [(0.0, 900), (0.25, 950), (0.5, 1000), (0.75, 1050)])
def test_chance_spreads_a_delay(draw: float, delay: int) -> None:
    assert delay_ms(1, Retry(), draw) == delay


@given(ATTEMPTS, RETRIES, DRAWS)
def test_a_delay_stays_within_its_bounds(attempt: int, retry: Retry, draw: float) -> None:
    delay = delay_ms(attempt, retry, draw)
    assert 0 <= delay <= retry.max_delay_ms * (1 + retry.jitter)


@given(ATTEMPTS, ATTEMPTS, RETRIES, DRAWS)
def test_a_later_attempt_never_waits_less(one: int, other: int, retry: Retry, draw: float) -> None:
    earlier, later = sorted((one, other))
    assert delay_ms(earlier, retry, draw) <= delay_ms(later, retry, draw)


@given(RETRIES)
def test_the_first_delay_is_the_initial_one(retry: Retry) -> None:
    assert delay_ms(1, retry, EVEN) == min(retry.initial_delay_ms, retry.max_delay_ms)


def test_the_millionth_attempt_waits_no_longer_than_any_other() -> None:
    assert delay_ms(10**6, Retry(), EVEN) == 30_000
    assert delay_ms(10**6, Retry(initial_delay_ms=0), EVEN) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"initial_delay_ms": -1},
        {"max_delay_ms": -1},
        {"multiplier": 0.9},
        {"multiplier": float("nan")},
        {"jitter": -0.1},
        {"jitter": 1.1},
        {"jitter": float("nan")},
    ],
    ids=str,
)
def test_a_senseless_retry_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="retry"):
        Retry(**wrong)


# Verdicts


def test_a_clean_exit_completes_with_its_result() -> None:
    result = Result(exit_code=0, branch="acode/1")
    assert verdict_on(Exited(0), result=result) == Complete(result)


def test_a_cancelled_attempt_cancels_the_task() -> None:
    told = failure("TIMEOUT", "transient")
    assert verdict_on(Cancelled(), told=told, retry_limit=9) == Cancel()


def test_a_released_attempt_goes_back_as_if_it_had_not_been() -> None:
    assert verdict_on(Released("the pool stops"), 99) == Release("the pool stops")


def test_a_clean_exit_with_a_failure_has_failed() -> None:
    told = failure("EXIT_CODE", "permanent")
    assert verdict_on(Exited(0), told=told) == Fail(
        told, "it broke; not retried because the task sets no retries"
    )


def test_what_an_attempt_left_is_kept_whatever_becomes_of_it() -> None:
    result = Result(patch="changes.patch")
    for ending in (Exited(0), Exited(1), TimedOut(1), Cancelled(), Released("drain")):
        assert verdict_on(ending, result=result).result is result


ENDS = "fail"
TASK_SAYS = "as often as the task says"
ALWAYS = "as often as the task or else the pool says"


@pytest.mark.parametrize(
    ("told", "rule"),
    [
        (failure("TIMEOUT", "transient"), ALWAYS),
        (failure("WORKER_CRASH", "transient"), ALWAYS),
        (failure("IPC_FAILURE", "transient"), ALWAYS),
        (failure("EXIT_CODE", "transient"), ALWAYS),
        (failure("EXIT_CODE", "partial"), ALWAYS),
        (failure("EXIT_CODE", "permanent"), TASK_SAYS),
        (failure("EXIT_CODE", "permanent", final=True), ENDS),
        (failure("TIMEOUT", "transient", final=True), ENDS),
        (failure("TIMEOUT", "permanent"), ENDS),
        *((failure("RESOURCE_EXHAUSTED", category), TASK_SAYS) for category in Category),
        *(
            (failure(code, category), ENDS)
            for code in (
                "INVALID_TASK",
                "PERMISSION_DENIED",
                "BLOCKED_COMMAND",
                "TOOL_NOT_FOUND",
                "CANCELLED",
            )
            for category in Category
        ),
    ],
    ids=lambda value: f"{value.code}-{value.category}" if isinstance(value, Failure) else value,
)
@pytest.mark.parametrize("retry_limit", [None, 0, 1, 7])
def test_retries_follow_code_category_and_limit(
    told: Failure, rule: str, retry_limit: int | None
) -> None:
    allowed = {
        ENDS: 0,
        TASK_SAYS: retry_limit or 0,
        ALWAYS: DEFAULT_LIMIT if retry_limit is None else retry_limit,
    }
    assert attempts_until_failed(told, retry_limit) == allowed[rule] + 1


@pytest.mark.req("forge-21")
def test_timeouts_crashes_and_lost_connections_are_retried() -> None:
    lost_connection = NotStarted(failure("IPC_FAILURE", "transient"))
    for ending in (TimedOut(5), Lost("killed"), lost_connection):
        assert isinstance(verdict_on(ending), RetryAt)


@pytest.mark.req("forge-21")
def test_what_cannot_get_better_is_not_retried_even_if_the_task_asks_for_it() -> None:
    invalid = NotStarted(failure("INVALID_TASK", "permanent"))
    denied = NotStarted(failure("PERMISSION_DENIED", "permanent"))
    for ending in (invalid, denied):
        assert isinstance(verdict_on(ending, retry_limit=5), Fail)


@pytest.mark.req("forge-21")
@pytest.mark.parametrize("ending", [OverLimit("memoryMb", 512, 600), Signalled(9, oom=True)])
def test_what_ran_out_of_something_is_retried_only_if_the_task_says_so(ending: Ending) -> None:
    assert isinstance(verdict_on(ending), Fail)
    assert isinstance(verdict_on(ending, retry_limit=1), RetryAt)


def test_a_plain_failed_exit_is_retried_only_if_the_task_says_so() -> None:
    assert isinstance(verdict_on(Exited(1)), Fail)
    assert isinstance(verdict_on(Exited(1), retry_limit=1), RetryAt)


def test_a_command_can_say_that_another_attempt_may_help_or_not() -> None:
    assert isinstance(verdict_on(Exited(75)), RetryAt)
    assert isinstance(verdict_on(Exited(77), retry_limit=5), Fail)
    assert isinstance(verdict_on(Exited(78), retry_limit=5), Fail)


def test_a_task_that_kills_its_workers_is_quarantined_whatever_its_limit() -> None:
    lost = Lost("killed by SIGKILL")
    assert isinstance(verdict_on(lost, 2, retry_limit=100, crashes=POISON_CRASHES - 1), RetryAt)
    verdict = verdict_on(lost, 3, retry_limit=100, crashes=POISON_CRASHES)
    assert isinstance(verdict, Fail)
    assert verdict.reason == (
        "worker lost: killed by SIGKILL; quarantined because it killed its worker 3 times"
    )


def test_former_crashes_do_not_quarantine_what_ends_otherwise() -> None:
    assert verdict_on(Exited(0), crashes=9) == Complete()
    assert isinstance(verdict_on(TimedOut(1), crashes=9), RetryAt)


@pytest.mark.req("lld-13")
def test_a_failure_keeps_its_category_step_hint_and_wait_on_the_way_back_to_the_queue() -> None:
    told = failure(
        "EXIT_CODE", "partial", hint="tags are left", retry_after_ms=9000, failed_step="tag"
    )
    verdict = verdict_on(Exited(1), told=told)
    assert verdict == RetryAt(NOW + 9000, told, "it broke; attempt 2 of 4 in 9.0 s")


@pytest.mark.req("lld-13")
@pytest.mark.parametrize(
    ("category", "expected"), [("transient", RetryAt), ("partial", RetryAt), ("permanent", Fail)]
)
def test_the_category_says_whether_another_attempt_helps(
    category: str, expected: type[Verdict]
) -> None:
    assert type(verdict_on(Exited(1), told=failure("EXIT_CODE", category))) is expected


@pytest.mark.parametrize(
    ("asked_for", "wait"),
    [(None, 1000), (0, 1000), (-5, 1000), (999, 1000), (60_000, 60_000), (2**80, LONGEST_WAIT_MS)],
)
def test_a_wish_to_wait_raises_the_delay_and_never_lowers_it(
    asked_for: int | None, wait: int
) -> None:
    told = failure("EXIT_CODE", "transient", retry_after_ms=asked_for)
    verdict = verdict_on(Exited(1), told=told)
    assert isinstance(verdict, RetryAt)
    assert verdict.ready_at == NOW + wait


@pytest.mark.parametrize(
    ("ending", "attempt_count", "retry_limit", "reason"),
    [
        (Exited(1), 1, 3, "exit code 1; attempt 2 of 4 in 1.0 s"),
        (Exited(1), 2, 3, "exit code 1; attempt 3 of 4 in 2.0 s"),
        (Exited(1), 4, 3, "exit code 1; retries exhausted after 4 attempts"),
        (Exited(1), 1, 0, "exit code 1; retries exhausted after 1 attempt"),
        (Exited(1), 1, None, "exit code 1; not retried because the task sets no retries"),
        (Exited(78), 1, 3, "exit code 78; not retried because another attempt cannot help"),
        (TimedOut(5), 1, None, "timed out after 5 s; attempt 2 of 4 in 1.0 s"),
        (Signalled(11), 1, 1, "ended by SIGSEGV; attempt 2 of 2 in 1.0 s"),
        (
            NotStarted(failure("TOOL_NOT_FOUND", "permanent")),
            1,
            None,
            "not started: it broke; not retried because another attempt cannot help",
        ),
    ],
)
def test_the_reason_is_a_sentence(
    ending: Ending, attempt_count: int, retry_limit: int | None, reason: str
) -> None:
    verdict = verdict_on(ending, attempt_count, retry_limit=retry_limit)
    assert isinstance(verdict, Fail | RetryAt)
    assert verdict.reason == reason


def test_a_long_story_gives_its_first_line_as_the_reason() -> None:
    told = Failure(FailureCode.EXIT_CODE, Category.PERMANENT, "\nValueError: bad\n  at line 3\n")
    verdict = verdict_on(Exited(1), told=told)
    assert isinstance(verdict, Fail)
    assert verdict.reason.startswith("ValueError: bad; not retried")


@given(
    ending=ENDINGS,
    told=st.none() | FAILURES,
    attempt_count=st.integers(1, 10**6),
    retry_limit=st.none() | st.integers(0, 10**6),
    default_limit=st.integers(0, 100),
    crashes=st.integers(0, 10),
    retry=RETRIES,
    draw=DRAWS,
)
def test_a_task_is_never_tried_more_often_than_its_limit_allows(
    ending: Ending,
    told: Failure | None,
    attempt_count: int,
    retry_limit: int | None,
    default_limit: int,
    crashes: int,
    retry: Retry,
    draw: float,
) -> None:
    outcome = Outcome(
        ending=ending,
        failure=told,
        attempt_count=attempt_count,
        retry_limit=retry_limit,
        default_limit=default_limit,
        crashes=crashes,
    )
    verdict = decide(outcome, retry, NOW, lambda: draw)
    if isinstance(verdict, RetryAt):
        assert attempt_count <= (default_limit if retry_limit is None else retry_limit)
        assert NOW <= verdict.ready_at < 2**63
    if isinstance(verdict, Complete):
        assert ending == Exited(0)
        assert told is None


@given(ENDINGS, DRAWS)
def test_the_same_facts_give_the_same_verdict(ending: Ending, draw: float) -> None:
    outcome = Outcome(ending=ending, attempt_count=1)
    verdicts = [decide(outcome, Retry(), NOW, lambda: draw) for _ in range(2)]
    assert verdicts[0] == verdicts[1]
