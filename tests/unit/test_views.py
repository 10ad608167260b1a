"""The JSON shapes: names, order, and what may not be shown."""

from typing import NamedTuple

import msgspec
import pytest

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
    Usage,
)
from acode.model.failure import Category, Failure, FailureCode
from acode.model.priority import Priority
from acode.model.state import Status
from acode.model.task import Attempt, DeadLetter, Mode, Move, Record, Result, Task, TaskSpec
from acode.store.base import Added, Counts
from acode.views import (
    added_view,
    attempt_view,
    counts_view,
    dead_letter_view,
    row_view,
    spec_view,
    task_view,
)

ID = "01HF7YAT000000000000000000"
WORKER = "01HF7YAT00ZZZZZZZZZZZZZZZZ"
NOW = 1_700_000_000_000
FAILURE = Failure(
    FailureCode.TIMEOUT, Category.TRANSIENT, "took too long", "raise --timeout", failed_step="fetch"
)

FIELDS = (
    "id title type status priority workstreamId command args env timeoutSeconds retryLimit "
    "attemptCount createdAt readyAt startedAt completedAt durationMs workerId exitCode error "
    "branch patch artifacts dependencies metadata history attempts"
)
CHOICES = "mode workspace base cwd key delaySeconds limits baseCommit"


class Defaults(NamedTuple):
    timeout_seconds: float = 3600.0
    retry_limit: int = 3


SPEC = TaskSpec(
    command="make",
    args=("test",),
    title="Test",
    env={"API_TOKEN": "abc", "LANG": "C"},
    artifacts=("out/*.txt",),
    mode=Mode.PROCESS,
)
TASK = Task(id=ID, spec=SPEC, status=Status.PENDING, created_at=NOW, ready_at=NOW)
FAILED = msgspec.structs.replace(
    TASK,
    status=Status.FAILED,
    started_at=NOW,
    completed_at=NOW + 1_500,
    worker_id=WORKER,
    attempt_count=1,
    error=FAILURE,
    result=Result(exit_code=7, branch="acode/x", patch="changes.patch", artifacts=("out/a.txt",)),
)
MOVE = Move(
    seq=1, task_id=ID, was=None, became=Status.PENDING, at=NOW, actor="cli:me", reason="added"
)


def attempt(ending: Ending | None) -> Attempt:
    return Attempt(number=1, worker_id=WORKER, started_at=NOW, ending=ending)


def test_a_task_has_the_fields_of_the_contract_in_their_order() -> None:
    view = task_view(Record(TASK, (), (MOVE,)), Defaults())
    assert " ".join(view) == f"{FIELDS} {CHOICES} checks value agent push host"


def test_a_row_is_a_task_without_what_is_long_or_secret() -> None:
    shorter = FIELDS.replace(" env ", " ").removesuffix(" history attempts")
    assert " ".join(row_view(TASK, Defaults())) == f"{shorter} {CHOICES} host"


def test_every_view_is_json() -> None:
    view = task_view(Record(FAILED, (attempt(Exited(7)),), (MOVE,)), Defaults())
    assert msgspec.json.decode(msgspec.json.encode(view))["status"] == "failed"


def test_secrets_are_masked() -> None:
    assert task_view(Record(TASK, (), ()), Defaults())["env"] == {"API_TOKEN": "***", "LANG": "C"}
    assert spec_view(SPEC, Defaults())["env"] == {"API_TOKEN": "***", "LANG": "C"}


def test_what_a_task_left_open_is_shown_as_it_will_be() -> None:
    view = row_view(TASK, Defaults(timeout_seconds=60.0, retry_limit=5))
    assert (view["timeoutSeconds"], view["retryLimit"]) == (60.0, 5)


def test_what_a_task_chose_is_shown_even_if_it_is_nothing() -> None:
    spec = msgspec.structs.replace(SPEC, timeout_seconds=1.5, retry_limit=0)
    view = row_view(msgspec.structs.replace(TASK, spec=spec), Defaults())
    assert (view["timeoutSeconds"], view["retryLimit"]) == (1.5, 0)


def test_times_are_iso_with_milliseconds() -> None:
    view = row_view(FAILED, Defaults())
    assert view["createdAt"] == "2023-11-14T22:13:20.000Z"
    assert view["completedAt"] == "2023-11-14T22:13:21.500Z"
    assert view["durationMs"] == 1500


def test_the_outcome_of_a_task_is_shown() -> None:
    view = row_view(FAILED, Defaults())
    assert view["exitCode"] == 7
    assert view["branch"] == "acode/x"
    assert view["patch"] == "changes.patch"
    assert view["error"] == {
        "code": "TIMEOUT",
        "category": "transient",
        "message": "took too long",
        "hint": "raise --timeout",
    }


def test_artifacts_are_patterns_until_there_are_files() -> None:
    assert row_view(TASK, Defaults())["artifacts"] == ("out/*.txt",)
    assert row_view(FAILED, Defaults())["artifacts"] == ("out/a.txt",)


def test_a_move_is_shown_from_to() -> None:
    (move,) = task_view(Record(TASK, (), (MOVE,)), Defaults())["history"]
    assert move == {
        "from": None,
        "to": "pending",
        "at": "2023-11-14T22:13:20.000Z",
        "actor": "cli:me",
        "reason": "added",
    }


@pytest.mark.parametrize(
    ("ending", "shown"),
    [
        (None, (None, None, None, False)),
        (Exited(3), ("exited", 3, None, False)),
        (Signalled(9, oom=True), ("signalled", None, 9, True)),
        (TimedOut(60.0), ("timedOut", None, None, False)),
        (Cancelled(), ("cancelled", None, None, False)),
        (OverLimit("memory", 1, 2, oom=True), ("overLimit", None, None, True)),
        (Lost("gone"), ("lost", None, None, False)),
        (Released("drain"), ("released", None, None, False)),
        (NotStarted(FAILURE), ("notStarted", None, None, False)),
    ],
)
def test_every_ending_has_its_name(
    ending: Ending | None, shown: tuple[str | None, int | None, int | None, bool]
) -> None:
    view = attempt_view(attempt(ending))
    assert (view["ending"], view["exitCode"], view["signal"], view["oom"]) == shown


def test_an_attempt_has_the_fields_of_the_contract_in_their_order() -> None:
    one = msgspec.structs.replace(attempt(Exited(0)), usage=Usage(0.5, 1024))
    view = attempt_view(one)
    assert (
        " ".join(view) == "number workerId startedAt endedAt ending exitCode signal oom usage host"
    )
    assert view["usage"] == {"cpuSeconds": 0.5, "maxMemoryBytes": 1024}


def test_a_dead_letter_has_the_fields_of_the_contract_in_their_order() -> None:
    letter = DeadLetter(
        task_id=ID,
        task_type="shell",
        document_id="",
        failure_reason="TIMEOUT: took too long",
        attempt_count=3,
        first_failure=NOW,
        last_failure=NOW + 1,
        error_details=FAILURE,
        checkpoint={"fetch": 1},
    )
    names = "taskId taskType failureReason attemptCount firstFailure lastFailure errorDetails"
    view = dead_letter_view(letter)
    assert " ".join(view) == f"{names} checkpoint"
    assert view["errorDetails"]["failedStep"] == "fetch"


def test_the_answer_to_a_submission_is_id_and_status() -> None:
    assert added_view(Added(ID, Status.BLOCKED)) == {"id": ID, "status": "blocked"}


def test_the_queue_at_a_glance() -> None:
    counts = Counts(
        by_status=dict.fromkeys(Status, 2),
        pending_by_priority=dict.fromkeys(Priority, 0),
        paused=True,
        oldest_ready_at=None,
    )
    view = msgspec.json.decode(msgspec.json.encode(counts_view(counts)))
    assert view["tasks"]["pending"] == 2
    assert view["waiting"] == 4
    assert view["paused"] is True
    assert view["pendingByPriority"]["background"] == 0
