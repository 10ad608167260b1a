"""What the end of an attempt says, in the words of the policies, the store and the listeners."""

from acode.model.ending import Ending, Exited
from acode.model.event import TaskEnded
from acode.model.task import Lease, Result
from acode.model.verdict import Release, Report, Verdict
from acode.policy.retry import Outcome
from acode.worker.messages import Ended


def ended_as(lease: Lease, ending: Ending, now: int) -> Ended:
    """The end of an attempt whose worker says nothing any more."""
    return Ended(
        task_id=lease.task.id, token=lease.token, number=lease.number, ending=ending, ended_at=now
    )


def outcome_of(lease: Lease, ended: Ended, default_limit: int, crashes: int) -> Outcome:
    """What has to be decided about."""
    code = ended.ending.code if isinstance(ended.ending, Exited) else None
    return Outcome(
        ending=ended.ending,
        attempt_count=lease.task.attempt_count,
        failure=ended.failure,
        result=Result(
            exit_code=code,
            branch=ended.branch,
            patch=ended.patch,
            artifacts=ended.artifacts,
            checks=ended.checks,
            value=ended.value,
            agent=ended.agent,
            push=ended.push,
        ),
        retry_limit=lease.task.spec.retry_limit,
        default_limit=default_limit,
        crashes=crashes,
    )


def report_of(lease: Lease, ended: Ended, verdict: Verdict) -> Report:
    """What is written down."""
    return Report(
        task_id=lease.task.id,
        token=lease.token,
        ending=ended.ending,
        ended_at=ended.ended_at,
        verdict=verdict,
        usage=ended.usage,
        ran_on=lease.ran_on,
    )


def event_of(lease: Lease, verdict: Verdict, ended_at: int) -> TaskEnded:
    """What those hear who listen."""
    task = lease.task
    return TaskEnded(
        task.id,
        lease.worker_id,
        lease.number,
        verdict.status,
        verdict.reason,
        task.spec.kind,
        max(0, ended_at - (task.started_at or ended_at)),
        not isinstance(verdict, Release),
        verdict.failure,
        verdict.result,
    )
