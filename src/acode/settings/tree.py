"""The tree of settings: every key with its type, its bounds and its default."""

import os
from typing import Annotated, Literal

from msgspec import Meta, Struct, field, structs

from acode.model.agent import AgentFormat
from acode.model.task import Mode

_YEAR_SECONDS = 365 * 24 * 3600

Count = Annotated[int, Meta(ge=1, le=1_000_000)]
CountOrNone = Annotated[int, Meta(ge=0, le=1_000_000)]
QueueSize = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Retries = Annotated[int, Meta(ge=0, le=100)]
Port = Annotated[int, Meta(ge=0, le=65_535)]
Megabytes = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Milliseconds = Annotated[int, Meta(ge=1, le=1000 * _YEAR_SECONDS)]
MillisecondsOrNone = Annotated[int, Meta(ge=0, le=1000 * _YEAR_SECONDS)]
Seconds = Annotated[float, Meta(gt=0, le=10 * _YEAR_SECONDS)]
SecondsOrNone = Annotated[float, Meta(ge=0, le=10 * _YEAR_SECONDS)]
Minutes = Annotated[float, Meta(ge=0, le=60 * 24 * 365)]
Days = Annotated[float, Meta(ge=0, le=36_500)]
Percent = Annotated[float, Meta(gt=0, le=1_000_000)]
Share = Annotated[float, Meta(ge=0, le=1)]
Factor = Annotated[float, Meta(ge=1, le=1000)]
Text = Annotated[str, Meta(min_length=1)]
Texts = tuple[Text, ...]
VariableName = Annotated[
    str,
    Meta(
        pattern=r"\A[A-Za-z_][A-Za-z0-9_]*\Z",
        extra={"expected": "the name of a variable: letters, digits and _"},
    ),
]
AgentName = Annotated[
    str,
    Meta(
        pattern=r"\A(?!(shell|script|python)\Z)[a-z0-9][a-z0-9_-]{0,63}\Z",
        extra={
            "expected": "the name of an agent: small letters, digits, - and _, "
            "and not shell, script or python"
        },
    ),
]


class Section(Struct, frozen=True, kw_only=True, rename="camel"):
    """A mapping in the settings file."""


class Limits(Section, frozen=True):
    """What one attempt may use."""

    cpu_percent: Percent = 25
    memory_mb: Megabytes = 512
    disk_mb: Megabytes = 1024
    max_processes: Count = 50
    max_open_files: Count = 1024


class Resources(Section, frozen=True):
    """What happens to an attempt that uses more."""

    over_limit_action: Literal["warn", "throttle", "kill"] = "warn"


class PoolLimits(Section, frozen=True):
    """What all attempts together may use."""

    total_memory_mb: Megabytes = 4096
    total_cpu_percent: Percent = 200
    concurrent_tasks: Count = 20


class Process(Section, frozen=True):
    """How worker processes are restarted and ended."""

    restart_delay_ms: Milliseconds = 1000
    max_restart_delay_ms: Milliseconds = 60_000
    max_restarts: CountOrNone = 10
    kill_timeout_seconds: SecondsOrNone = 10
    keep_worktrees: bool = False


class Worktree(Section, frozen=True):
    """Where and how workspaces are made."""

    base_dir: Text = ".agent/worktrees"
    strategy: Literal["auto", "overlay", "warm", "plain"] = "auto"
    cleanup_on_exit: bool = True
    warm: CountOrNone = 2
    copy_ignored: Texts = ()


class DockerResources(Section, frozen=True):
    """What one container may use."""

    cpus: Annotated[float, Meta(gt=0, le=10_000)] = 1.0
    memory_mb: Megabytes = 512
    pids_limit: Count = 100
    read_only_root_fs: bool = False


class Mount(Section, frozen=True):
    """A directory of the host in every container."""

    source: Text
    target: Text
    read_only: bool = False


class Secret(Section, frozen=True):
    """A file that containers find under /run/secrets."""

    name: Annotated[
        str,
        Meta(
            pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_.-]*\Z",
            extra={"expected": "a file name: letters, digits, ., - and _"},
        ),
    ]
    file: Text


class Docker(Section, frozen=True):
    """How containers are made."""

    image: Text | None = None
    pull_policy: Literal["always", "never", "ifNotPresent"] = "ifNotPresent"
    keep_containers: bool = False
    fallback_to_local: bool = True
    network: Literal["bridge", "host", "none"] = "bridge"
    host: Text | None = None
    start_timeout_seconds: Seconds = 30
    stop_timeout_seconds: SecondsOrNone = 10
    pull_timeout_seconds: Seconds = 300
    max_pull_retries: Count = 3
    stats_interval_seconds: Seconds = 5
    resources: DockerResources = DockerResources()
    mounts: tuple[Mount, ...] = ()
    ports: Texts = ()
    dns: Texts = ()
    extra_hosts: Texts = ()
    secrets: tuple[Secret, ...] = ()


class Workers(Section, frozen=True):
    """The pool and its workers."""

    count: Count = 0
    """Not given: the number of processors, within min and max."""
    min: Count = 1
    max: Count = 32
    mode: Mode = Mode.PROCESS
    poll_interval_ms: Milliseconds = 1000
    idle_backoff_max_ms: Milliseconds = 30_000
    heartbeat_interval_ms: Milliseconds = 10_000
    lease_seconds: Annotated[float, Meta(ge=2, le=86_400)] = 30
    health_check_interval_ms: Milliseconds = 30_000
    drain_timeout_seconds: SecondsOrNone = 60
    on_daemon_exit: Literal["keep", "drain", "kill"] = "keep"
    limits: Limits = Limits()
    resources: Resources = Resources()
    pool_limits: PoolLimits = PoolLimits()
    process: Process = Process()
    worktree: Worktree = Worktree()
    docker: Docker = Docker()

    def __post_init__(self) -> None:
        if not self.count:
            within = max(self.min, min(os.cpu_count() or 1, self.max))
            structs.force_setattr(self, "count", within)


class Autoscale(Section, frozen=True):
    """When the pool grows and shrinks by itself."""

    enabled: bool = False
    min: Count = 2
    max: Count = 20
    initial: Count = 5
    scale_up_threshold: Share = 0.8
    scale_down_threshold: Share = 0.2
    scale_up_step: Count = 2
    scale_down_step: Count = 1
    interval_ms: Milliseconds = 30_000
    cooldown_ms: MillisecondsOrNone = 60_000


class Tasks(Section, frozen=True):
    """What holds for tasks that say nothing else."""

    timeout_seconds: Seconds = 3600
    retry_limit: Retries = 3
    ageing_minutes: Minutes = 10
    queue_size: QueueSize = 100_000
    artifacts: Texts = ()
    build_command: Text | None = None
    test_command: Text | None = None
    checkpoint_max_age_days: Days = 7
    keep_history_days: Days = 30


class Retry(Section, frozen=True):
    """How long a failed task waits for its next attempt."""

    initial_delay_ms: MillisecondsOrNone = 1000
    max_delay_ms: MillisecondsOrNone = 30_000
    multiplier: Factor = 2
    jitter: Share = 0.1


class Breaker(Section, frozen=True):
    """When tasks of one type and workstream are held back."""

    failure_threshold: Count = 5
    recovery_timeout_ms: Milliseconds = 30_000
    half_open_requests: Count = 2


class Sandbox(Section, frozen=True):
    """What a task is kept from."""

    level: Literal["off", "write", "strict"] = "write"
    network: Literal["inherit", "none"] = "inherit"
    write_paths: Texts = ()
    read_paths: Texts = ()
    blocked_commands: Texts = ()


class Environment(Section, frozen=True):
    """Which variables a task sees."""

    deny: Texts = ()
    pass_: Texts = field(name="pass", default=())
    set: dict[VariableName, str] = {}


class Tools(Section, frozen=True):
    """Programs that must be there."""

    required: Texts = ("git",)


class Agent(Section, frozen=True):
    """How a coding agent is called; `{prompt}` stands for the task's command."""

    command: Annotated[Texts, Meta(min_length=1)]
    pass_: Texts = field(name="pass", default=())
    format: AgentFormat = AgentFormat.AUTO
    idle_timeout_seconds: SecondsOrNone = 900
    result_grace_seconds: SecondsOrNone = 10
    verify: Text | None = None
    write_paths: Texts = ()


CLAUDE_CODE = Agent(
    command=("claude", "-p", "{prompt}", "--output-format", "stream-json", "--verbose"),
    pass_=("ANTHROPIC_API_KEY",),
    write_paths=("~/.claude",),
)


class Results(Section, frozen=True):
    """What becomes of what tasks have changed."""

    author: Annotated[
        str,
        Meta(
            pattern=r"\A[^<>\n]+ <[^<>\s]+>\Z",
            extra={"expected": "a name and an address: Name <name@example.org>"},
        ),
    ] = "acode <acode@localhost>"
    push: Text | None = None
    """The remote that branches are pushed to."""
    keep_branch_days: Days = 0
    """0: until the user removes them."""
    keep_artifact_days: Days = 0


class Store(Section, frozen=True):
    """Where the queue is kept."""

    url: str | None = None

    @property
    def is_shared(self) -> bool:
        """Whether several machines can have the queue in common."""
        return self.url is not None and self.url.startswith(("postgresql://", "postgres://"))


class Api(Section, frozen=True):
    """The HTTP door."""

    enabled: bool = True
    host: Text = "127.0.0.1"
    port: Port = 8470

    @property
    def port_may_move(self) -> bool:
        """Whether the next free port will do as well: nobody has set one."""
        return True


class FixedApi(Api, frozen=True):
    """The HTTP door at a port that somebody has set: it is used or refused."""

    @property
    def port_may_move(self) -> bool:
        """Whoever set the port means this one."""
        return False


class Logging(Section, frozen=True):
    """What is written to log files and how long they are kept."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    max_size_mb: Megabytes = 10
    max_files: Count = 5
    retention_days: Days = 7


class Governance(Section, frozen=True):
    """The published state of the pool."""

    enabled: bool = True
    path: Text = ".agent/governance.json"


def _agents() -> dict[AgentName, Agent]:
    return {"claude-code": CLAUDE_CODE}


class Settings(Section, frozen=True):
    """Everything that can be set, checked and complete."""

    workers: Workers = field(default_factory=Workers)
    autoscale: Autoscale = Autoscale()
    tasks: Tasks = Tasks()
    retry: Retry = Retry()
    breaker: Breaker = Breaker()
    sandbox: Sandbox = Sandbox()
    environment: Environment = Environment()
    tools: Tools = Tools()
    agents: dict[AgentName, Agent] = field(default_factory=_agents)
    results: Results = Results()
    store: Store = Store()
    api: Api = Api()
    logging: Logging = Logging()
    governance: Governance = Governance()
