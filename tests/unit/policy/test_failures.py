from typing import get_args

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
from acode.policy.failures import brief, explain

NO_GIT = Failure(FailureCode.TOOL_NOT_FOUND, Category.PERMANENT, "git is missing", "install git")

ENDINGS = st.one_of(*(st.from_type(kind) for kind in get_args(Ending)))


def explained(ending: Ending) -> Failure:
    failure = explain(ending)
    assert failure is not None
    return failure


@pytest.mark.parametrize("ending", [Exited(0), Released("drain")])
def test_nothing_went_wrong(ending: Ending) -> None:
    assert explain(ending) is None


@pytest.mark.parametrize(
    ("ending", "code", "category", "final"),
    [
        (Exited(1), "EXIT_CODE", "permanent", False),
        (Exited(75), "EXIT_CODE", "transient", False),
        (Exited(77), "EXIT_CODE", "permanent", True),
        (Exited(78), "EXIT_CODE", "permanent", True),
        (Exited(137), "EXIT_CODE", "permanent", False),
        (Exited(255), "EXIT_CODE", "permanent", False),
        (Signalled(11), "EXIT_CODE", "permanent", False),
        (Signalled(9), "EXIT_CODE", "permanent", False),
        (Signalled(9, oom=True), "RESOURCE_EXHAUSTED", "permanent", False),
        (TimedOut(300), "TIMEOUT", "transient", False),
        (Cancelled(), "CANCELLED", "permanent", True),
        (OverLimit("diskMb", 1024, 1200), "RESOURCE_EXHAUSTED", "permanent", False),
        (OverLimit("memoryMb", 512, 513, oom=True), "RESOURCE_EXHAUSTED", "permanent", False),
        (Lost("killed by SIGKILL"), "WORKER_CRASH", "transient", False),
    ],
)
def test_every_ending_has_a_code_and_a_category(
    ending: Ending, code: str, category: str, final: bool
) -> None:
    failure = explained(ending)
    assert (failure.code, failure.category, failure.final) == (code, category, final)


@pytest.mark.parametrize(
    ("ending", "message"),
    [
        (Exited(3), "the command ended with exit code 3"),
        (Signalled(11), "the command was ended by SIGSEGV"),
        (Signalled(250), "the command was ended by signal 250"),
        (Signalled(9, oom=True), "the kernel ended the command because memory ran out"),
        (TimedOut(2.5), "the command was not done after 2.5 s and was ended"),
        (Cancelled(), "a user cancelled the task"),
        (
            OverLimit("diskMb", 1024, 1200.5),
            "WORKER-005: the command used 1200.5 of diskMb, its limit is 1024",
        ),
        (
            OverLimit("memoryMb", 512, 1_234_567, oom=True),
            "WORKER-005: the command used 1234567 of memoryMb, its limit is 512; "
            "the kernel ended it because memory ran out",
        ),
        (Lost("killed by SIGKILL"), "the worker died during the attempt: killed by SIGKILL"),
    ],
)
def test_the_message_says_what_happened(ending: Ending, message: str) -> None:
    assert explained(ending).message == message


@pytest.mark.parametrize(
    ("ending", "part"),
    [
        (Exited(1), "acode task logs"),
        (Exited(126), "chmod +x"),
        (Exited(127), "not found"),
        (Exited(130), "SIGINT"),
        (Exited(137), "memory"),
        (Exited(139), "SIGSEGV"),
        (Exited(143), "SIGTERM"),
        (Exited(255), "acode task logs"),
        (Signalled(9), "outside acode"),
        (Signalled(11), "crashed"),
        (Signalled(9, oom=True), "--memory-mb"),
        (TimedOut(1), "--timeout"),
        (OverLimit("diskMb", 1, 2), "raise workers.limits.diskMb in config.yml, and --disk-mb"),
        (OverLimit("maxProcesses", 1, 2), "raise workers.limits.maxProcesses"),
        (Lost("gone"), "acode worker logs"),
        (Cancelled(), "acode task retry"),
    ],
)
def test_the_hint_says_what_to_do(ending: Ending, part: str) -> None:
    assert part in explained(ending).hint


def test_what_was_not_started_brings_its_own_failure() -> None:
    assert explain(NotStarted(NO_GIT)) is NO_GIT


@given(ENDINGS)
def test_every_ending_can_be_told(ending: Ending) -> None:
    assert brief(ending)
    failure = explain(ending)
    if failure is not None and not isinstance(ending, NotStarted):
        assert failure.message
        assert failure.hint


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (Exited(1), "exit code 1"),
        (Signalled(11), "ended by SIGSEGV"),
        (Signalled(9, oom=True), "ended by SIGKILL (out of memory)"),
        (TimedOut(300), "timed out after 300 s"),
        (Cancelled(), "cancelled"),
        (OverLimit("diskMb", 1, 2), "over its limit of diskMb"),
        (Lost("killed"), "worker lost: killed"),
        (Released("drain"), "released: drain"),
        (NotStarted(NO_GIT), "not started: git is missing"),
    ],
)
def test_an_ending_in_a_few_words(ending: Ending, words: str) -> None:
    assert brief(ending) == words
