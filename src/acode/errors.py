"""One tree of errors. Each has a code, says what happened, and hints at what to do."""

from typing import Any, ClassVar


class AcodeError(Exception):
    """Something that the user should hear about."""

    code: ClassVar[str] = "ACODE-000"
    exit_code: ClassVar[int] = 1
    hint: str = ""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        if hint is not None:
            self.hint = hint


class UsageError(AcodeError):
    """The command line is wrong."""

    code = "USAGE"
    exit_code = 2
    hint = "acode --help shows how commands are written"


class ConfigError(AcodeError):
    """A setting is unknown or has a value that is not allowed."""

    code = "CONFIG"
    exit_code = 2
    hint = "acode init writes a config.yml that shows every key with its default"


class ProjectUnusable(AcodeError):
    """The project's `.agent/` directory cannot be made or written."""

    code = "PROJECT"
    hint = "check that you may write to the project directory, or name another with --project"


class InvalidTask(AcodeError):
    """The task cannot be accepted as it is written."""

    code = "INVALID_TASK"
    hint = "correct what is listed and submit again; nothing was added"


class BlockedCommand(AcodeError):
    """A command is on the list of those that acode refuses."""

    code = "BLOCKED_COMMAND"
    hint = "nothing was added; if it is really meant, do it by hand"


class TaskNotFound(AcodeError):
    """No task has this id."""

    code = "TASK-001"
    hint = "acode task list shows the tasks and their ids"


class AmbiguousId(AcodeError):
    """The prefix fits more than one id."""

    code = "TASK-002"
    hint = "type more characters of the id"


class IllegalMove(AcodeError):
    """The task's status does not allow this."""

    code = "TASK-003"
    hint = "acode task show ID tells what happened to it"


class LeaseLost(AcodeError):
    """The attempt is not the task's current one any more; nothing was written."""

    code = "TASK-004"
    hint = "another attempt has taken over; this one's result is not used"


class QueueFull(AcodeError):
    """The queue holds as many waiting tasks as it may."""

    code = "QUEUE-001"
    hint = "wait until some are done, or raise tasks.queueSize"


class PoolStopped(AcodeError):
    """The pool has stopped, or was never started."""

    code = "POOL-001"
    hint = "use the pool between start and stop; what waits in a durable store stays there"


class DrainTimeout(AcodeError):
    """The pool has stopped, but some tasks did not end in time and were released."""

    code = "POOL-002"
    hint = "give stop a longer timeout; in a durable store the next start runs these tasks again"

    def __init__(self, message: str, task_ids: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.task_ids = task_ids


class TaskFailed(AcodeError):
    """The task failed for good; its cause is what the handler raised."""

    code = "TASK-005"
    hint = "correct the cause, then retry the dead letter"
    task_id: str = ""
    failure: Any = None
    """Code, category, message and hint, as `task show` tells them."""


class TaskTimeout(AcodeError, TimeoutError):
    """It did not end in time: the task itself, or the wait for its result."""

    code = "TASK-006"
    hint = "give it more time"


class TaskTimedOut(TaskFailed, TaskTimeout):
    """The task failed for good because its time was up."""

    code = "TASK-007"
    hint = "give it more time with timeout=, or split it into smaller tasks"


class TaskCancelled(AcodeError):
    """The task was cancelled, so it has no result."""

    code = "TASK-008"
    hint = "submit it again if it is wanted after all"


class StoreDamaged(AcodeError):
    """The store's file is damaged or is no acode store."""

    code = "QUEUE-002"
    hint = "acode queue check tells more; restore the last file made by acode queue backup"


class DiskFull(AcodeError):
    """There is no room on the disk; nothing was written and nothing is lost."""

    code = "QUEUE-003"
    hint = "free some space and try again"


class StoreTooNew(AcodeError):
    """A newer acode has written this store."""

    code = "QUEUE-004"
    hint = "upgrade acode: pip install --upgrade acode"


class StoreBusy(AcodeError):
    """Another process keeps the store locked."""

    code = "QUEUE-005"
    hint = "try again; acode queue status tells who uses the store"


class StoreUnusable(AcodeError):
    """The store's file cannot be opened or written."""

    code = "QUEUE-006"
    hint = "check that the directory exists and that you may write to it"


class HostUnreachable(AcodeError):
    """Another host that shares the queue cannot be asked."""

    code = "HOST-001"
    hint = "acode worker list tells which hosts there are"


class StoreUnavailable(AcodeError):
    """The database server cannot be reached at the moment; nothing is lost."""

    code = "QUEUE-007"
    hint = "check that it runs; a running pool goes on by itself when it is back"


class StoreRefused(AcodeError):
    """The database server does not let us in, or not do what is needed."""

    code = "QUEUE-008"
    hint = "check user, password, database and rights in store.url"


class AlreadyThere(AcodeError):
    """A file of this name is there already; it was not touched."""

    code = "FILE-001"
    hint = "choose another name, or move it away first"


class FileUnreadable(AcodeError):
    """A file that was named cannot be read."""

    code = "FILE-002"
    hint = "check its name and that you may read it"


class WorkspaceFailed(AcodeError):
    """A workspace could not be made, or its result not be kept."""

    code = "WORKSPACE-001"
    hint = "acode task logs ID tells more; the task can be tried again"


class WorkerNotFound(AcodeError):
    """No worker has this id."""

    code = "WORKER-001"
    hint = "acode worker list shows the workers and their ids"


class PoolNotRunning(AcodeError):
    """No worker pool runs for this project."""

    code = "WORKER-002"
    hint = "acode worker start starts one"


class WorkerStartFailed(AcodeError):
    """A worker could not be started."""

    code = "WORKER-003"
    hint = "acode worker logs and .agent/logs/daemon.log tell more"


class WorkerTimeout(AcodeError):
    """The pool did not answer or stop in time."""

    code = "WORKER-004"
    hint = "acode worker stop --force ends it at once"


class DockerUnavailable(AcodeError):
    """Containers cannot be used."""

    code = "WORKER-006"
    hint = "use --mode process, or set workers.docker.fallbackToLocal to true"


class PoolRunning(AcodeError):
    """The pool of this project runs already."""

    code = "WORKER-007"
    hint = "acode worker status shows it; acode worker scale N changes its size"


class PortTaken(AcodeError):
    """The port of the HTTP API cannot be used."""

    code = "API-001"
    hint = "set another api.port, or none: then the next free one is taken"


class ToolMissing(AcodeError):
    """A program that the pool requires is not there."""

    code = "TOOL_NOT_FOUND"
    exit_code = 3
    hint = "install it, or take it out of tools.required"
