"""A task: what the user asked for, and what became of it."""

from enum import StrEnum
from typing import Any

import msgspec

from acode.model.agent import AgentRun
from acode.model.ending import Ending, Usage
from acode.model.failure import Failure
from acode.model.priority import Priority
from acode.model.state import Status


class Mode(StrEnum):
    """How a command is run."""

    PROCESS = "process"
    DOCKER = "docker"


class WorkspaceKind(StrEnum):
    """Where an attempt works."""

    WORKTREE = "worktree"
    SCRATCH = "scratch"
    PROJECT = "project"


class TaskLimits(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What a task asks to be held to; `None` leaves it to the pool."""

    memory_mb: int | None = None
    cpu_percent: float | None = None
    disk_mb: int | None = None


class TaskSpec(
    msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True
):
    """What the user asked for, checked and complete. `None` leaves a choice to the pool."""

    command: str
    args: tuple[str, ...] = ()
    type: str = "shell"
    title: str | None = None
    priority: Priority = Priority.MEDIUM
    workstream_id: str | None = None
    env: dict[str, str] = {}
    timeout_seconds: float | None = None
    retry_limit: int | None = None
    dependencies: tuple[str, ...] = ()
    mode: Mode | None = None
    workspace: WorkspaceKind | None = None
    base: str | None = None
    base_commit: str | None = None
    """What `base` meant when the task was added, where several machines have to agree on it."""
    cwd: str | None = None
    artifacts: tuple[str, ...] = ()
    key: str | None = None
    delay_seconds: float = 0.0
    limits: TaskLimits = TaskLimits()
    metadata: dict[str, Any] = {}

    @property
    def kind(self) -> str:
        """What circuits and statistics count by: the type, for Python the handler's name."""
        return self.command if self.type == "python" else self.type


class Submission(msgspec.Struct, frozen=True, gc=False):
    """A spec with the id it will have. A thing has a name before it exists."""

    id: str
    spec: TaskSpec


class Push(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What became of a result branch at the remote that the settings name."""

    remote: str
    problem: str | None = None
    """Why it is not there yet."""


class Result(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What an attempt left behind."""

    exit_code: int | None = None
    branch: str | None = None
    patch: str | None = None
    artifacts: tuple[str, ...] = ()
    checks: dict[str, int] = {}
    """Exit codes of the commands that checked it, by name."""
    value: Any = None
    agent: AgentRun | None = None
    """What a coding agent said of its run."""
    push: Push | None = None


class CancelWish(StrEnum):
    """A user's written wish that a running task should end."""

    GENTLY = "gently"
    FORCE = "force"


class Task(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One task as the store knows it. Moments are milliseconds since the epoch, UTC."""

    id: str
    spec: TaskSpec
    status: Status
    created_at: int
    ready_at: int
    attempt_count: int = 0
    last_attempt: int = 0
    """Number of the newest attempt; released ones have numbers too but do not count."""
    started_at: int | None = None
    completed_at: int | None = None
    worker_id: str | None = None
    host_id: str | None = None
    """Where it runs or ran, if several hosts share the store."""
    result: Result | None = None
    error: Failure | None = None
    cancel: CancelWish | None = None


class Attempt(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One try at a task."""

    number: int
    worker_id: str
    host_id: str | None = None
    started_at: int
    ended_at: int | None = None
    ending: Ending | None = None
    error: Failure | None = None
    usage: Usage | None = None


class Move(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One step in the life of a task. `seq` numbers the moves of the whole store."""

    seq: int
    task_id: str
    was: Status | None
    became: Status
    at: int
    actor: str
    reason: str


class Record(msgspec.Struct, frozen=True, gc=False):
    """Everything the store knows of one task."""

    task: Task
    attempts: tuple[Attempt, ...]
    history: tuple[Move, ...]


class Lease(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The right to run one attempt. Every write about it carries the token."""

    task: Task
    number: int
    token: str
    worker_id: str
    ran_on: str | None = None
    """The host that fell silent while it held this lease, if one did."""
    steps: dict[str, Any] = {}
    """Checkpoint of the attempts before: finished steps and their values."""


class DeadLetter(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A task that failed for good, kept until a user retries or drops it."""

    task_id: str
    task_type: str
    document_id: str
    failure_reason: str
    attempt_count: int
    first_failure: int
    last_failure: int
    error_details: Failure
    checkpoint: dict[str, Any]
