"""What an agent is held to, and how its end counts."""

import json
from typing import Any

import pytest

from acode.model.agent import AgentFormat, AgentRules, AgentRun, UsageLimit
from acode.model.ending import Cancelled, Ending, Exited, Released, Signalled, TimedOut
from acode.model.failure import Category, FailureCode
from acode.runner.agent.watch import UNKNOWN_RESET_MS, AgentWatch, limit_ends

NOW = 1_800_000_000_000
RULES = AgentRules(idle_timeout_seconds=60, result_grace_seconds=5)


def watch(*events: dict[str, Any], rules: AgentRules = RULES, at: float = 100.0) -> AgentWatch:
    """A watch that began at 100 and heard everything at a moment."""
    watch = AgentWatch(rules, 100.0)
    for each in events:
        watch.feed(json.dumps(each).encode() + b"\n", at, NOW)
    return watch


def result(**fields: Any) -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "is_error": False, "result": "ok", **fields}


INIT = {"type": "system", "subtype": "init", "session_id": "s", "model": "m"}


def test_an_agent_that_prints_nothing_is_ended() -> None:
    silent = watch(INIT, at=110.0)
    assert silent.deadline == 170
    assert silent.due(169.9) is None
    assert silent.due(170) == "the agent was idle for 60 s"
    assert not silent.is_leaving
    assert silent.stopped_as == TimedOut(60)
    ending, failure = silent.judged(TimedOut(60), NOW)
    assert ending == TimedOut(60)
    assert failure is not None
    assert (failure.code, failure.category) == (FailureCode.TIMEOUT, Category.TRANSIENT)
    assert "idle" in failure.message


def test_every_sign_of_life_counts() -> None:
    lively = watch(INIT, at=110.0)
    lively.heard(150.0)
    assert lively.deadline == 210
    lively.feed(b"half a li", 170.0, NOW)
    assert lively.deadline == 230


@pytest.mark.parametrize(("failed", "code"), [(False, 0), (True, 1)])
def test_an_agent_that_stays_after_its_result_counts_by_the_result(failed: bool, code: int) -> None:
    done = watch(result(is_error=failed), at=110.0)
    assert done.deadline == 115
    assert done.due(115)
    assert done.is_leaving
    ending, failure = done.judged(Signalled(15), NOW)
    assert ending == Exited(code)
    assert (failure is not None) is failed


def test_a_user_who_cancels_an_agent_that_leaves_has_cancelled_it() -> None:
    done = watch(result(), at=110.0)
    assert done.due(115)
    assert done.judged(Cancelled(), NOW) == (Cancelled(), None)


def test_what_follows_the_result_gives_no_further_grace() -> None:
    done = watch(result(), at=110.0)
    done.feed(b'{"type":"system","subtype":"task_notification"}\n', 113.0, NOW)
    assert done.deadline == 115


def test_another_turn_takes_the_result_back() -> None:
    done = watch(result(), at=110.0)
    done.feed(b'{"type":"assistant","message":{"content":"more"}}\n', 112.0, NOW)
    assert done.deadline == 172


def test_it_is_ended_once() -> None:
    done = watch(result(), at=110.0)
    assert done.due(200)
    assert done.due(200) is None


@pytest.mark.parametrize("events", [(INIT,), (INIT, result())])
def test_bounds_of_zero_are_none(events: tuple[dict[str, Any], ...]) -> None:
    assert watch(*events, rules=AgentRules()).due(1e12) is None


def failure_of(*events: dict[str, Any], ending: Ending, rules: AgentRules = RULES) -> Any:
    return watch(*events, rules=rules).judged(ending, NOW)


def test_an_agent_that_succeeds_succeeds() -> None:
    assert failure_of(INIT, result(), ending=Exited(0)) == (Exited(0), None)


def test_a_failed_result_fails_the_attempt_whatever_the_exit_code() -> None:
    ending, failure = failure_of(INIT, result(is_error=True, result="no\nway"), ending=Exited(0))
    assert ending == Exited(0)
    assert failure.code is FailureCode.EXIT_CODE
    assert failure.category is Category.PERMANENT
    assert failure.message == "the agent reported a failure: no"


@pytest.mark.parametrize(
    ("trouble", "category", "final"),
    [
        ("overloaded", Category.TRANSIENT, False),
        ("server_error", Category.TRANSIENT, False),
        ("billing_error", Category.PERMANENT, True),
        ("authentication_failed", Category.PERMANENT, True),
        ("invalid_request", Category.PERMANENT, False),
    ],
)
def test_the_service_says_whether_another_attempt_can_help(
    trouble: str, category: Category, final: bool
) -> None:
    said = {"type": "assistant", "message": {"content": "x"}, "error": trouble}
    _, failure = failure_of(INIT, said, result(is_error=True), ending=Exited(1))
    assert (failure.category, failure.final) == (category, final)


def test_a_success_that_exits_with_a_failure_is_one() -> None:
    assert failure_of(INIT, result(), ending=Exited(3)) == (Exited(3), None)


def test_an_agent_that_reports_must_report_its_result() -> None:
    ending, failure = failure_of(INIT, ending=Exited(0))
    assert ending == Exited(0)
    assert "without a result" in failure.message


def test_a_program_that_reports_nothing_is_judged_by_its_exit_code() -> None:
    assert failure_of(ending=Exited(0)) == (Exited(0), None)
    strict = AgentRules(format=AgentFormat.STREAM_JSON)
    assert failure_of(ending=Exited(0), rules=strict)[1] is not None


LIMITED = {
    "type": "rate_limit_event",
    "rate_limit_info": {"status": "rejected", "resetsAt": NOW // 1000 + 3600},
}


@pytest.mark.parametrize("code", [0, 1])
def test_a_usage_limit_releases_the_attempt(code: int) -> None:
    ending, failure = failure_of(INIT, LIMITED, result(is_error=True), ending=Exited(code))
    assert ending == Released("usage limit until 2027-01-15T09:00:00.000Z")
    assert failure is None


@pytest.mark.parametrize("ending", [Cancelled(), Signalled(9), TimedOut(5), Released("drain")])
def test_what_others_ended_is_theirs(ending: Ending) -> None:
    assert failure_of(INIT, LIMITED, result(is_error=True), ending=ending) == (ending, None)


@pytest.mark.parametrize(
    ("resets_at", "until"),
    [
        (NOW + 1000, NOW + 1000),
        (None, NOW + UNKNOWN_RESET_MS),
        (NOW - 1000, NOW + UNKNOWN_RESET_MS),
        (NOW * 1000, NOW + 7 * 86_400_000),
    ],
)
def test_a_limit_ends_some_day(resets_at: int | None, until: int) -> None:
    assert limit_ends(AgentRun(limit=UsageLimit("no", resets_at)), NOW) == until
