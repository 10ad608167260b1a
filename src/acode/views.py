"""The JSON shapes of the public contract, the same at every door. Pure functions."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, assert_never

from acode.clock import iso
from acode.ids import host_name
from acode.model.agent import AgentRun
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
from acode.model.failure import Failure
from acode.model.host import HostState
from acode.model.state import Status
from acode.model.task import Attempt, DeadLetter, Move, Record, Result, Task, TaskLimits, TaskSpec
from acode.observe.tallies import used_by, worker_counts
from acode.policy.secrets import mask
from acode.store.base import Added, Counts

if TYPE_CHECKING:
    from acode.observe.logparse import Record as LogRecord

View = dict[str, Any]
"""A JSON object, its keys in the order in which people read them."""

_NOTHING = Result()


class Defaults(Protocol):
    """What a task is given where it did not choose."""

    @property
    def timeout_seconds(self) -> float:
        """How long an attempt may take."""
        ...

    @property
    def retry_limit(self) -> int:
        """How often a failure is tried again."""
        ...


def task_view(record: Record, defaults: Defaults) -> View:
    """Everything about one task."""
    return {
        **_task(record.task, defaults),
        "history": [move_view(move) for move in record.history],
        "attempts": [attempt_view(attempt) for attempt in record.attempts],
        **_choices(record.task.spec),
        **_told(record.task.result or _NOTHING),
        "host": host_name(_host_of(record)),
    }


def _host_of(record: Record) -> str | None:
    """Where the last attempt ran; whoever looks after a lost one did not run it."""
    return record.attempts[-1].host_id if record.attempts else record.task.host_id


def _told(result: Result) -> View:
    """What the checks, the function or the agent said."""
    agent = result.agent
    return {
        "checks": result.checks,
        "value": result.value,
        "agent": None if agent is None else agent_view(agent),
        "push": result.push and {"remote": result.push.remote, "problem": result.push.problem},
    }


def agent_view(run: AgentRun) -> View:
    """What a coding agent said of its run."""
    return {
        "sessionId": run.session_id,
        "model": run.model,
        "turns": run.turns,
        "costUsd": run.cost_usd,
        "durationMs": run.duration_ms,
        "isError": run.is_error,
        "result": run.result,
        "limit": run.limit and {"message": run.limit.message, "resetsAt": iso(run.limit.resets_at)},
    }


def row_view(task: Task, defaults: Defaults) -> View:
    """One task in a list."""
    view = {**_task(task, defaults), **_choices(task.spec), "host": host_name(task.host_id)}
    del view["env"]
    return view


def spec_view(spec: TaskSpec, defaults: Defaults) -> View:
    """What a task asks for, in the words of a task file."""
    return {
        "title": spec.title,
        "type": spec.type,
        "priority": spec.priority,
        "workstreamId": spec.workstream_id,
        "command": spec.command,
        "args": spec.args,
        "env": mask(spec.env),
        **_effective(spec, defaults),
        "dependencies": spec.dependencies,
        "artifacts": spec.artifacts,
        "metadata": spec.metadata,
        **_choices(spec),
    }


def added_view(added: Added) -> View:
    """The answer to a submission."""
    return {"id": added.id, "status": added.status}


def status_view(task: Task) -> View:
    """A task and where it stands."""
    return {"id": task.id, "status": task.status}


def dead_letter_view(letter: DeadLetter) -> View:
    """A task that failed for good."""
    return {
        "taskId": letter.task_id,
        "taskType": letter.task_type,
        "failureReason": letter.failure_reason,
        "attemptCount": letter.attempt_count,
        "firstFailure": iso(letter.first_failure),
        "lastFailure": iso(letter.last_failure),
        "errorDetails": _details(letter.error_details),
        "checkpoint": letter.checkpoint,
    }


def counts_view(counts: Counts) -> View:
    """The queue at a glance."""
    return {
        "paused": counts.paused,
        "waiting": counts.waiting,
        "tasks": counts.by_status,
        "pendingByPriority": counts.pending_by_priority,
        "oldestReadyAt": iso(counts.oldest_ready_at),
    }


def no_pool_view(counts: Counts | None, mode: str, trouble: str | None = None) -> View:
    """`worker status --json` where no pool runs: only the store has something to say, if it can."""
    return {
        "isRunning": False,
        "mode": mode,
        "activeCount": 0,
        "idleCount": 0,
        "busyCount": 0,
        "transitioningCount": 0,
        **(queue_in_pool(counts) if counts else {"pendingTasks": 0, "runningTasks": 0}),
        "uptimeSeconds": 0,
        "resources": {"cpuPercent": 0.0, "memoryBytes": 0, "diskBytes": 0},
        "backpressure": trouble,
        "apiUrl": None,
        "circuits": [],
        "pauses": [],
        "host": None,
        "hosts": [],
        "workers": [],
    }


def queue_in_pool(counts: Counts) -> View:
    """What is said of the queue where a pool is shown."""
    return {
        "pendingTasks": counts.by_status[Status.PENDING],
        "runningTasks": counts.by_status[Status.RUNNING],
    }


def shared_view(pool: View, hosts: Sequence[HostState], own_id: str | None) -> View:
    """A pool together with those of the other hosts that share its queue."""
    others = [each for each in hosts if each.host.id != own_id and each.lost_at is None]
    elsewhere = [worker for each in others for worker in (each.pool or {}).get("workers", ())]
    workers = [*pool["workers"], *elsewhere]
    return {
        **pool,
        **worker_counts(workers),
        "resources": used_by(workers),
        "hosts": [host_view(each, own_id) for each in hosts],
        "workers": workers,
    }


def is_at_work(pool: View) -> bool:
    """Whether a pool runs, here or on another host that shares the queue."""
    return bool(pool["isRunning"] or pool["workers"])


def host_view(state: HostState, own_id: str | None) -> View:
    """One of those who share a queue. Its key is nobody's business."""
    host = state.host
    return {
        "id": host.id,
        "name": host.name,
        "address": host.address,
        "isThis": host.id == own_id,
        "joinedAt": iso(state.joined_at),
        "seenAt": iso(state.seen_at),
        "leaseUntil": iso(state.lease_until),
        "lostAt": iso(state.lost_at),
        "workers": len((state.pool or {}).get("workers", ())),
        **host.runs,
    }


def log_view(record: "LogRecord") -> View:
    """One line of a log."""
    return {
        "time": iso(record.at),
        "workerId": record.worker_id,
        "taskId": record.task_id,
        "attempt": record.attempt or None,
        "stream": record.stream,
        "level": record.level,
        "message": record.text,
    }


def label(spec: TaskSpec) -> str:
    """The title of a task, or what it runs where it has none."""
    return spec.title or " ".join([spec.command, *spec.args])


def failure_view(failure: Failure) -> View:
    """What went wrong and what to do about it."""
    return {
        "code": failure.code,
        "category": failure.category,
        "message": failure.message,
        "hint": failure.hint,
    }


def _details(failure: Failure) -> View:
    return {**failure_view(failure), "failedStep": failure.failed_step}


def move_view(move: Move) -> View:
    """One step in the life of a task."""
    return {
        "from": move.was,
        "to": move.became,
        "at": iso(move.at),
        "actor": move.actor,
        "reason": move.reason,
    }


def attempt_view(attempt: Attempt) -> View:
    """One try at a task."""
    return {
        "number": attempt.number,
        "workerId": attempt.worker_id,
        "startedAt": iso(attempt.started_at),
        "endedAt": iso(attempt.ended_at),
        **_ending(attempt.ending),
        "usage": _usage(attempt.usage),
        "host": host_name(attempt.host_id),
    }


def duration_ms(task: Task) -> int | None:
    """How long the last attempt took, once it is over."""
    if task.started_at is None or task.completed_at is None:
        return None
    return task.completed_at - task.started_at


def _task(task: Task, defaults: Defaults) -> View:
    spec, result = task.spec, task.result or _NOTHING
    return {
        "id": task.id,
        "title": spec.title,
        "type": spec.type,
        "status": task.status,
        "priority": spec.priority,
        "workstreamId": spec.workstream_id,
        "command": spec.command,
        "args": spec.args,
        "env": mask(spec.env),
        **_effective(spec, defaults),
        "attemptCount": task.attempt_count,
        "createdAt": iso(task.created_at),
        "readyAt": iso(task.ready_at),
        "startedAt": iso(task.started_at),
        "completedAt": iso(task.completed_at),
        "durationMs": duration_ms(task),
        "workerId": task.worker_id,
        "exitCode": result.exit_code,
        "error": task.error and failure_view(task.error),
        "branch": result.branch,
        "patch": result.patch,
        # The patterns asked for, until there are files that they matched.
        "artifacts": result.artifacts or spec.artifacts,
        "dependencies": spec.dependencies,
        "metadata": spec.metadata,
    }


def _effective(spec: TaskSpec, defaults: Defaults) -> View:
    timeout, retries = spec.timeout_seconds, spec.retry_limit
    return {
        "timeoutSeconds": defaults.timeout_seconds if timeout is None else timeout,
        "retryLimit": defaults.retry_limit if retries is None else retries,
    }


def _choices(spec: TaskSpec) -> View:
    return {
        "mode": spec.mode,
        "workspace": spec.workspace,
        "base": spec.base,
        "cwd": spec.cwd,
        "key": spec.key,
        "delaySeconds": spec.delay_seconds,
        "limits": _limits(spec.limits),
        "baseCommit": spec.base_commit,
    }


def _limits(limits: TaskLimits) -> Mapping[str, float | None]:
    return {
        "memoryMb": limits.memory_mb,
        "cpuPercent": limits.cpu_percent,
        "diskMb": limits.disk_mb,
    }


def _usage(usage: Usage | None) -> View | None:
    if usage is None:
        return None
    return {"cpuSeconds": usage.cpu_seconds, "maxMemoryBytes": usage.max_memory_bytes}


def _ending(ending: Ending | None) -> View:
    code: int | None = None
    signal: int | None = None
    oom = False
    match ending:
        case Exited():
            code = ending.code
        case Signalled():
            signal, oom = ending.signal, ending.oom
        case OverLimit():
            oom = ending.oom
        case TimedOut() | Cancelled() | Lost() | Released() | NotStarted() | None:
            pass
        case _:
            assert_never(ending)
    name = ending and ending.__struct_config__.tag
    return {"ending": name, "exitCode": code, "signal": signal, "oom": oom}
