"""What the frames carry."""

from enum import StrEnum
from typing import Any

import msgspec

from acode.model.agent import AgentRules, AgentRun
from acode.model.ending import Ending, Usage
from acode.model.failure import Failure
from acode.model.limits import AttemptLimits, Over, OverLimitAction
from acode.model.task import Push, WorkspaceKind
from acode.model.worker import ProcessIdentity
from acode.runner.container.seat import Seat, Wanted


class Tenure(msgspec.Struct, frozen=True):
    """Until when nobody else can have got the tasks of this host."""

    until: float
    """In seconds since the machine was started; by then nothing of an attempt may be left."""
    grace: float
    """So long before that an attempt is asked to end."""


class Check(msgspec.Struct, frozen=True):
    """A command that decides whether what the task claims to have done is done."""

    name: str
    argv: tuple[str, ...]


class Assignment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt to run: everything the worker needs to know. Payload of a task frame."""

    task_id: str
    token: str
    number: int
    argv: tuple[str, ...]
    env: dict[str, str]
    timeout_seconds: float
    kill_timeout_seconds: float
    limits: AttemptLimits = AttemptLimits()
    cwd: str | None = None
    workspace: WorkspaceKind | None = WorkspaceKind.SCRATCH
    """None: a worktree if there can be one."""
    base: str | None = None
    base_commit: str | None = None
    checks: tuple[Check, ...] = ()
    artifacts: tuple[str, ...] = ()
    """Patterns of files in the workspace that are kept."""
    title: str = ""
    wanted: Wanted | None = None
    """The container that it is to run in; it becomes a seat before the worker hears of it."""
    seat: Seat | None = None
    """The container that it runs in; None is a process of its own."""
    passed: tuple[str, ...] = ()
    """Variables that may hold secrets because the settings say so."""
    agent: AgentRules | None = None
    """For coding agents: how their output is read, and what they are held to."""
    writable: tuple[str, ...] = ()
    """Directories outside of the workspace that this command may write to."""
    is_function: bool = False
    """Whether the command calls a Python function and tells what it gives back."""
    tenure: Tenure | None = None
    """How long it may go on unless there is word from the daemon; None is for ever."""

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing to do before and after the command."""
        needs_git = self.workspace in (None, WorkspaceKind.WORKTREE)
        return not (needs_git or self.checks or self.artifacts)


class Ended(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """How an attempt ended. Payload of a result frame, and content of the spool."""

    task_id: str
    token: str
    number: int
    ending: Ending
    ended_at: int
    usage: Usage = Usage()
    failure: Failure | None = None
    artifacts: tuple[str, ...] = ()
    branch: str | None = None
    patch: str | None = None
    checks: dict[str, int] = {}
    """Exit codes of the checks that ran, by name."""
    value: Any = None
    """What a Python handler returned."""
    agent: AgentRun | None = None
    push: Push | None = None
    setback: str | None = None
    """Why the machine, not the task, kept the command from starting."""
    spent: bool = False
    """The container that it ran in is of no more use."""
    leaves: bool = False
    """The worker ends now and takes no other task."""


class Current(msgspec.Struct, frozen=True):
    """The attempt that a worker runs at the moment."""

    task_id: str
    token: str
    number: int


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """A sign of life, also the greeting: who the worker is and what it does."""

    worker_id: str
    process: ProcessIdentity
    current: Current | None = None
    ended: Ended | None = None
    """A result that nobody has acknowledged yet."""
    enforced: tuple[str, ...] = ()
    """The limits that the kernel keeps by itself."""
    counts: bool = False
    """Whether the usage that it reports is that of the whole tree."""
    disk_bytes: int = 0
    """What its attempt has written."""


class Action(StrEnum):
    """What the daemon can tell a worker, and the zygote."""

    ABORT = "abort"
    SHUTDOWN = "shutdown"
    ACKNOWLEDGE = "acknowledge"
    LIMIT = "limit"
    EXTEND = "extend"
    FORK = "fork"


class Why(StrEnum):
    """Why an attempt is aborted."""

    CANCEL = "cancel"
    RELEASE = "release"
    SILENCE = "silence"
    """Its host could not tell the store in time that it is there."""


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """An order. Payload of a control frame."""

    action: Action
    token: str | None = None
    why: Why = Why.RELEASE
    force: bool = False
    data: Any = None


class Exceeded(msgspec.Struct, frozen=True):
    """A limit that an attempt has gone over. In a control frame, what to do about it."""

    task_id: str
    over: Over
    action: OverLimitAction


class Note(msgspec.Struct, frozen=True):
    """A line for the log, or an error that is nobody's result."""

    level: str
    message: str


class Forked(msgspec.Struct, frozen=True):
    """The zygote's answer to a fork order."""

    worker_id: str
    process: ProcessIdentity | None
    error: str | None = None


class Exited(msgspec.Struct, frozen=True):
    """The zygote's notice that a worker is gone; a negative code is a signal."""

    worker_id: str
    pid: int
    code: int
