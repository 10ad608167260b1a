"""What a write makes of a task: pure, and the same for every store."""

from typing import NamedTuple, assert_never

from msgspec.structs import replace

from acode.errors import IllegalMove
from acode.model.ending import Released
from acode.model.failure import Failure
from acode.model.state import FINISHED, MOVES, Status
from acode.model.task import CancelWish, DeadLetter, Push, Submission, Task
from acode.model.verdict import Cancel, Complete, Fail, Release, Report, RetryAt


class Step(NamedTuple):
    """A task after a move, and why it moved."""

    task: Task
    reason: str


def added(submission: Submission, *, blocked: bool, now: int) -> Task:
    """A task at the beginning of its life."""
    delay = submission.spec.delay_seconds
    return Task(
        id=submission.id,
        spec=submission.spec,
        status=Status.BLOCKED if blocked else Status.PENDING,
        created_at=now,
        ready_at=now + round(delay * 1000) if delay else now,
    )


def claimed(task: Task, worker_id: str, now: int, host_id: str | None) -> Task:
    """A task whose next attempt begins."""
    return replace(
        task,
        status=Status.RUNNING,
        attempt_count=task.attempt_count + 1,
        last_attempt=task.last_attempt + 1,
        worker_id=worker_id,
        host_id=host_id,
        started_at=now,
    )


def finished(task: Task, report: Report) -> Step:
    """A running task after its attempt, by verdict. A cancel wish wins over another try."""
    verdict = report.verdict
    if task.cancel and isinstance(verdict, RetryAt | Release):
        verdict = Cancel("cancelled while it ran", verdict.result)
    match verdict:
        case Complete():
            return Step(_ended(task, Status.COMPLETED, report, None), verdict.reason)
        case Fail(failure, reason):
            return Step(_ended(task, Status.FAILED, report, failure), reason)
        case Cancel(reason):
            return Step(_ended(task, Status.CANCELLED, report, None), reason)
        case RetryAt(ready_at, failure, reason):
            return Step(_requeued(task, ready_at, task.attempt_count, failure), reason)
        case Release(reason):
            waiting = _requeued(task, report.ended_at, task.attempt_count - 1, task.error)
            return Step(waiting, reason)
        case _:
            assert_never(verdict)


def _ended(task: Task, status: Status, report: Report, failure: Failure | None) -> Task:
    # A released attempt that a cancel wish ended still does not count.
    uncounted = isinstance(report.ending, Released)
    return replace(
        task,
        status=status,
        attempt_count=task.attempt_count - uncounted,
        completed_at=report.ended_at,
        result=report.verdict.result,
        error=failure,
        cancel=None,
    )


def _requeued(task: Task, ready_at: int, attempt_count: int, failure: Failure | None) -> Task:
    return replace(
        task,
        status=Status.PENDING,
        attempt_count=attempt_count,
        ready_at=ready_at,
        started_at=None,
        worker_id=None,
        host_id=None,
        error=failure,
    )


def unblocked(task: Task, now: int) -> Step:
    """A blocked task whose dependencies are all completed."""
    waiting = replace(task, status=Status.PENDING, ready_at=max(task.ready_at, now))
    return Step(waiting, "every dependency is completed")


def blocked(task: Task) -> Step:
    """A pending task that has to wait for its dependencies after all."""
    return Step(replace(task, status=Status.BLOCKED), "waits for its dependencies")


def cancelled(task: Task, *, force: bool, now: int) -> Step:
    """A task that a user does not want any more; a running one only gets the wish."""
    if task.status in FINISHED:
        raise IllegalMove(f"task {task.id} is {task.status} already and cannot be cancelled")
    if task.status is Status.RUNNING:
        wish = CancelWish.FORCE if force or task.cancel is CancelWish.FORCE else CancelWish.GENTLY
        return Step(replace(task, cancel=wish), "asked to end")
    done = replace(task, status=Status.CANCELLED, completed_at=now)
    return Step(done, "cancelled before it ran" if not task.last_attempt else "cancelled")


def retried(task: Task, *, reset_attempts: bool, now: int) -> Step:
    """A failed or cancelled task that a user wants to run again."""
    if task.status not in (Status.FAILED, Status.CANCELLED):
        raise IllegalMove(
            f"task {task.id} is {task.status}; only failed and cancelled tasks can be retried"
        )
    waiting = _requeued(task, now, 0 if reset_attempts else task.attempt_count, None)
    return Step(replace(waiting, completed_at=None, result=None), "retried by the user")


def dropped(task: Task, now: int) -> Step:
    """A dead letter that a user has given up."""
    if task.status is not Status.FAILED:
        raise IllegalMove(f"task {task.id} is {task.status}, not a dead letter")
    done = replace(task, status=Status.CANCELLED, completed_at=task.completed_at or now)
    return Step(done, "dropped from the dead letters")


def dead_letter(task: Task, first_failure: int, steps: dict[str, object]) -> DeadLetter:
    """The letter that a failed task leaves."""
    if task.error is None or task.completed_at is None:
        raise ValueError(f"task {task.id} has not failed")
    document = task.spec.metadata.get("documentId") or task.spec.workstream_id or ""
    return DeadLetter(
        task_id=task.id,
        task_type=task.spec.kind,
        document_id=str(document),
        failure_reason=f"{task.error.code}: {task.error.message}",
        attempt_count=task.attempt_count,
        first_failure=min(first_failure, task.completed_at),
        last_failure=task.completed_at,
        error_details=task.error,
        checkpoint=steps,
    )


def guard(was: Status, became: Status) -> None:
    """Refuse a move that the table does not have."""
    if became not in MOVES[was]:
        raise IllegalMove(f"a task cannot go from {was} to {became}")


def pushed(task: Task, number: int, push: Push) -> Task | None:
    """A task whose branch has reached its remote, or has not; None if it came to another one."""
    if task.status is not Status.COMPLETED or task.last_attempt != number or task.result is None:
        return None
    return replace(task, result=replace(task.result, push=push))
