"""What goes in and what comes out, for the OpenAPI document. Answers are made by `views`."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from acode.model.priority import Priority
from acode.model.state import Status, WorkerStatus
from acode.model.task import Mode, WorkspaceKind

Number = Annotated[int, Field(ge=0)]
Moment = Annotated[str, Field(description="ISO 8601, UTC", examples=["2026-01-30T12:00:00.000Z"])]
Text = Annotated[str, Field(pattern=r"^[^\x00]*$")]
Line = Annotated[str, Field(pattern=r"^[^\r\n\x00]{1,200}$")]
Percent = Annotated[float, Field(gt=0, le=1_000_000)]
Megabytes = Annotated[int, Field(ge=1, le=1_000_000_000)]
Limit = Annotated[int, Field(ge=1, le=1000, description="at most so many")]
Offset = Annotated[int, Field(ge=0, le=1_000_000_000, description="leave out the first")]


class Asked(BaseModel):
    """A body: unknown names and wrong types are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Answer(BaseModel):
    """An answer: later versions may say more."""

    model_config = ConfigDict(extra="allow")


class Problem(Answer):
    """What went wrong and what to do about it."""

    code: str
    message: str
    hint: str


class ProblemAnswer(Answer):
    """Every refusal."""

    error: Problem


class AgentType(StrEnum):
    """The types that come with acode; configured agents are types as well."""

    SHELL = "shell"
    SCRIPT = "script"
    CLAUDE_CODE = "claude-code"
    PYTHON = "python"


class TaskLimits(Asked):
    """What an attempt may use."""

    memoryMb: Megabytes | None = None  # noqa: N815 -- the wire is camelCase
    cpuPercent: Percent | None = None  # noqa: N815
    diskMb: Megabytes | None = None  # noqa: N815


class NewTask(Asked):
    """A task as in Forge's AgentTask, and what a task file can say besides."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"command": "make test", "priority": "high"}]},
    )

    command: Annotated[
        str,
        Field(
            min_length=1,
            max_length=131_072,
            pattern=r"^[^\x00]*[!-~][^\x00]*$",
        ),
    ]
    args: Annotated[list[Text], Field(max_length=10_000)] = []
    type: Annotated[
        str,
        Field(
            description="shell, script, claude-code, python or a configured agent",
            examples=["shell"],
        ),
    ] = "shell"
    priority: Priority = Priority.MEDIUM
    workstreamId: Line | None = None  # noqa: N815
    env: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], Text] = {}
    timeout: Annotated[float | None, Field(gt=0, le=3.15e11, description="milliseconds")] = None
    retryCount: Annotated[int | None, Field(ge=0, le=100)] = None  # noqa: N815
    metadata: dict[str, Any] = {}
    id: Annotated[Line | None, Field(description="the same as key, as Forge calls it")] = None
    title: Line | None = None
    key: Annotated[Line | None, Field(description="add it only if no task has this key")] = None
    dependencies: Annotated[list[str], Field(max_length=1000)] = []
    mode: Mode | None = None
    workspace: WorkspaceKind | None = None
    base: str | None = None
    cwd: str | None = None
    artifacts: Annotated[list[str], Field(max_length=1000)] = []
    delaySeconds: Annotated[float, Field(ge=0, le=315_360_000)] = 0.0  # noqa: N815
    limits: TaskLimits = TaskLimits()


class TaskAdded(Answer):
    """The id of a new task."""

    taskId: str  # noqa: N815
    status: Status


class Count(Asked):
    """How many workers the pool should have."""

    count: Annotated[int, Field(ge=0, le=1_000_000)]


class Step(Asked):
    """How many workers more, or fewer."""

    count: Annotated[int, Field(ge=1, le=1_000_000)] = 1


class Scaled(Answer):
    """The size that the pool has now."""

    count: int
    message: str | None


class Shutdown(Asked):
    """How the pool should end."""

    force: bool = False


class Stopping(Answer):
    """The pool is about to end."""

    stopping: bool
    pid: int


class Usage(Answer):
    """What a process tree uses."""

    cpuPercent: float  # noqa: N815
    memoryBytes: float  # noqa: N815
    diskBytes: float  # noqa: N815


class WorkerShape(Answer):
    """One worker."""

    id: str
    status: WorkerStatus
    pid: int | None
    mode: Mode
    currentTaskId: str | None  # noqa: N815
    startedAt: Moment | None  # noqa: N815
    lastHeartbeat: Moment | None  # noqa: N815
    tasksCompleted: Number  # noqa: N815
    tasksFailed: Number  # noqa: N815
    restarts: Number
    containerId: str | None  # noqa: N815
    resources: Usage


class PoolShape(Answer):
    """The same as `worker status --json`."""

    isRunning: bool  # noqa: N815
    mode: Mode
    activeCount: Number  # noqa: N815
    idleCount: Number  # noqa: N815
    busyCount: Number  # noqa: N815
    transitioningCount: Number  # noqa: N815
    pendingTasks: Number  # noqa: N815
    runningTasks: Number  # noqa: N815
    uptimeSeconds: float  # noqa: N815
    resources: Usage
    backpressure: str | None
    apiUrl: str | None  # noqa: N815
    workers: list[WorkerShape]


class WorkerMetrics(Answer):
    """The figures of one worker."""

    workerId: str  # noqa: N815
    status: WorkerStatus
    tasksCompleted: Number  # noqa: N815
    tasksFailed: Number  # noqa: N815
    restarts: Number
    uptimeSeconds: float  # noqa: N815
    cpuPercent: float  # noqa: N815
    memoryMb: float  # noqa: N815


class HealthWorkers(Answer):
    """How many workers there are, and what they do."""

    total: Number
    active: Number
    idle: Number
    error: Number


class HealthQueue(Answer):
    """How much waits, and for how long the oldest of it has."""

    depth: Number
    oldestTaskAge: Annotated[int, Field(ge=0, description="milliseconds")]  # noqa: N815


class Health(Answer):
    """How the pool is."""

    status: Literal["healthy", "degraded", "unhealthy"]
    workers: HealthWorkers
    queue: HealthQueue
    lastCheck: Moment  # noqa: N815


class TaskRow(Answer):
    """One task in a list."""

    id: str
    title: str | None
    type: str
    status: Status
    priority: Priority
    workstreamId: str | None  # noqa: N815
    command: str
    args: list[str]
    attemptCount: Number  # noqa: N815
    createdAt: Moment  # noqa: N815
    startedAt: Moment | None  # noqa: N815
    completedAt: Moment | None  # noqa: N815
    durationMs: int | None  # noqa: N815
    workerId: str | None  # noqa: N815
    exitCode: int | None  # noqa: N815
    error: dict[str, Any] | None
    branch: str | None
    metadata: dict[str, Any]


class TaskShape(TaskRow):
    """Everything about one task: the same as `task show --json`."""

    env: dict[str, str]
    history: list[dict[str, Any]]
    attempts: list[dict[str, Any]]


class TaskStanding(Answer):
    """A task and where it stands."""

    id: str
    status: Status


class Reasons(TaskStanding):
    """Why a task runs or does not."""

    reasons: list[str]


class LogLine(Answer):
    """One line that a task printed."""

    time: Moment
    workerId: str | None  # noqa: N815
    taskId: str | None  # noqa: N815
    attempt: int | None
    stream: Literal["stdout", "stderr", "system"]
    level: str
    message: str


class DeadLetterShape(Answer):
    """A task that failed for good."""

    taskId: str  # noqa: N815
    taskType: str  # noqa: N815
    failureReason: str  # noqa: N815
    attemptCount: Number  # noqa: N815
    firstFailure: Moment  # noqa: N815
    lastFailure: Moment  # noqa: N815
    errorDetails: dict[str, Any]  # noqa: N815
    checkpoint: dict[str, Any]


class QueueShape(Answer):
    """The queue at a glance."""

    paused: bool
    waiting: Number
    tasks: dict[str, int]


class Paused(Answer):
    """Whether the queue is paused now, and whether that is new."""

    paused: bool
    changed: bool


class Governance(Answer):
    """What the governance file holds."""

    workerPool: dict[str, Any]  # noqa: N815
