"""acode: a durable worker pool for coding agents, shell commands, scripts and Python functions."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from acode.embedded.client import Client, connect
    from acode.embedded.handle import TaskHandle
    from acode.embedded.letters import DeadLetters
    from acode.embedded.pool import Pool
    from acode.embedded.seen import SeenTask as Task
    from acode.embedded.statistics import PoolStats, TypeStats
    from acode.errors import (
        AcodeError,
        DrainTimeout,
        InvalidTask,
        PoolStopped,
        QueueFull,
        TaskCancelled,
        TaskFailed,
        TaskNotFound,
        TaskTimeout,
    )
    from acode.model.event import Event
    from acode.model.failure import Category, Failure, FailureCode
    from acode.model.priority import Priority
    from acode.model.state import Status
    from acode.model.task import DeadLetter
    from acode.policy.breaker import Breaker
    from acode.policy.raised import PartialError, PermanentError, TransientError
    from acode.policy.retry import Retry
    from acode.runner.context import Context, SyncContext
    from acode.runner.handlers import handler

__all__ = [
    "AcodeError",
    "Breaker",
    "Category",
    "Client",
    "Context",
    "DeadLetter",
    "DeadLetters",
    "DrainTimeout",
    "Event",
    "Failure",
    "FailureCode",
    "InvalidTask",
    "PartialError",
    "PermanentError",
    "Pool",
    "PoolStats",
    "PoolStopped",
    "Priority",
    "QueueFull",
    "Retry",
    "Status",
    "SyncContext",
    "Task",
    "TaskCancelled",
    "TaskFailed",
    "TaskHandle",
    "TaskNotFound",
    "TaskTimeout",
    "TransientError",
    "TypeStats",
    "__version__",
    "connect",
    "handler",
]

# Where each name lives. Loaded when it is first used: commands need none of them.
_PLACES = {
    "acode.embedded.client": ("Client", "connect"),
    "acode.embedded.handle": ("TaskHandle",),
    "acode.embedded.letters": ("DeadLetters",),
    "acode.embedded.pool": ("Pool",),
    "acode.embedded.statistics": ("PoolStats", "TypeStats"),
    "acode.errors": (
        "AcodeError",
        "DrainTimeout",
        "InvalidTask",
        "PoolStopped",
        "QueueFull",
        "TaskCancelled",
        "TaskFailed",
        "TaskNotFound",
        "TaskTimeout",
    ),
    "acode.model.event": ("Event",),
    "acode.model.failure": ("Category", "Failure", "FailureCode"),
    "acode.model.priority": ("Priority",),
    "acode.model.state": ("Status",),
    "acode.model.task": ("DeadLetter",),
    "acode.policy.breaker": ("Breaker",),
    "acode.policy.raised": ("PartialError", "PermanentError", "TransientError"),
    "acode.policy.retry": ("Retry",),
    "acode.runner.context": ("Context", "SyncContext"),
    "acode.runner.handlers": ("handler",),
}
_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "Task":
        from acode.embedded.seen import SeenTask

        return SeenTask
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'acode' has no attribute {name!r}")
    import importlib

    found = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
