"""What goes in and what comes out, for the OpenAPI document. Answers are made by `views`."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from typing_extensions import TypeAliasType

from acode.model.priority import Priority
from acode.model.state import Status, WorkerStatus
from acode.model.task import Mode, WorkspaceKind


def _whole(value: Any) -> Any:
    """JSON knows one kind of number: 1.0 is 1."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_WHOLE = BeforeValidator(_whole)
Number = Annotated[int, Field(ge=0)]
Moment = Annotated[str, Field(description="ISO 8601, UTC", examples=["2026-01-30T12:00:00.000Z"])]
Text = Annotated[str, Field(pattern=r"^[^\x00]*$")]
Line = Annotated[str, Field(pattern=r"^[^\r\n\x00]{1,200}$")]
Prefix = Annotated[str, Field(pattern=r"^[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{1,26}$")]
Inside = Annotated[
    str,
    Field(
        max_length=1000,
        pattern=r"^[^/\x00-\x1f][^\x00-\x1f]*$",
        description="a path inside the project",
    ),
]
_CLOSED = Field(json_schema_extra={"additionalProperties": False})
Value = TypeAliasType(
    "Value",
    "Text | bool | Annotated[int, Field(ge=-(2**63), lt=2**63)] | float"
    " | list[Value] | Annotated[dict[Text, Value], _CLOSED] | None",
)
"""What JSON can say, but for the NUL character."""
# Written out, because two dialects of expressions read it: whatever some of them calls a blank.
_BLANK = (
    "\\x00-\\x20\\x7f-\\xa0"
    "\N{OGHAM SPACE MARK}\N{MONGOLIAN VOWEL SEPARATOR}\N{EN QUAD}-\N{RIGHT-TO-LEFT MARK}"
    "\N{LINE SEPARATOR}\N{PARAGRAPH SEPARATOR}\N{NARROW NO-BREAK SPACE}"
    "\N{MEDIUM MATHEMATICAL SPACE}\N{IDEOGRAPHIC SPACE}\N{ZERO WIDTH NO-BREAK SPACE}"
)
Percent = Annotated[float, Field(gt=0, le=1_000_000)]
Megabytes = Annotated[int, Field(ge=1, le=1_000_000_000), _WHOLE]
Limit = Annotated[int, Field(ge=1, le=1000, description="at most so many")]
Offset = Annotated[int, Field(ge=0, le=1_000_000_000, description="leave out the first")]


class Asked(BaseModel):
    """A body: unknown names and wrong types are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Answer(BaseModel):
    """An answer: later versions may say more."""

    model_config = ConfigDict(extra="allow")


_REVISION = (
    r"^(@|[A-Za-z0-9_][A-Za-z0-9_+-]*([./][A-Za-z0-9_+-]+)*)"
    r"([~^][0-9]{0,6}|\^\{[a-z]{0,9}\}|@\{[ -z|~]{1,50}\})*$"
)
"""Names of branches, tags and commits, and git's ways to go on from there."""


class Problem(Answer):
    """What went wrong and what to do about it."""

    code: str
    message: str
    hint: str


class ProblemAnswer(Answer):
    """Every refusal."""

    error: Problem


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

    command: Annotated[str, Field(max_length=131_072, pattern=f"^[^\\x00]*[^{_BLANK}][^\\x00]*$")]
    args: Annotated[list[Text], Field(max_length=1000)] = []
    type: str = "shell"
    priority: Annotated[Priority, Field(strict=False)] = Priority.MEDIUM
    workstreamId: Line | None = None  # noqa: N815
    env: Annotated[
        dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], Text], _CLOSED
    ] = {}
    timeout: Annotated[float, Field(ge=1, le=3.15e11, description="milliseconds")] | None = None
    retryCount: Annotated[int, Field(ge=0, le=100), _WHOLE] | None = None  # noqa: N815
    metadata: Annotated[dict[Text, Value], _CLOSED] = {}
    id: Annotated[Line | None, Field(description="the same as key, as Forge calls it")] = None
    title: Line | None = None
    key: Annotated[Line | None, Field(description="add it only if no task has this key")] = None
    dependencies: Annotated[list[Prefix], Field(max_length=1000)] = []
    mode: Annotated[Mode | None, Field(strict=False)] = None
    workspace: Annotated[WorkspaceKind | None, Field(strict=False)] = None
    base: Annotated[str, Field(max_length=200, pattern=_REVISION)] | None = None
    cwd: Inside | None = None
    artifacts: Annotated[list[Inside], Field(max_length=100)] = []
    delaySeconds: Annotated[float, Field(ge=0, le=315_360_000)] = 0.0  # noqa: N815
    limits: TaskLimits = TaskLimits()


class TaskAdded(Answer):
    """The id of a new task."""

    taskId: str  # noqa: N815
    status: Status


class Count(Asked):
    """How many workers the pool should have."""

    count: Annotated[int, Field(ge=0, le=1_000_000), _WHOLE]


class Step(Asked):
    """How many workers more, or fewer."""

    count: Annotated[int, Field(ge=1, le=1_000_000), _WHOLE] = 1


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
    host: str


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
    host: str | None
    hosts: list[dict[str, Any]]
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
