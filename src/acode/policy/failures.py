"""Why an attempt did not succeed: its ending, told as a failure that a user can act on."""

import signal
from typing import Final, NamedTuple, assert_never

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
)
from acode.model.failure import Category, Failure, FailureCode

LONGEST_WAIT_MS: Final = 7 * 24 * 3600 * 1000
"""No service's wish keeps a task waiting longer than this."""

EX_TEMPFAIL, EX_NOPERM, EX_CONFIG = 75, 77, 78


class Kind(NamedTuple):
    """What failures of one sort have in common."""

    code: FailureCode
    category: Category
    hint: str
    final: bool = False

    def failure(self, message: str, retry_after_ms: int | None = None) -> Failure:
        """One failure of this sort."""
        return Failure(
            code=self.code,
            category=self.category,
            message=message,
            hint=self.hint,
            retry_after_ms=retry_after_ms,
            final=self.final,
        )


def transient(code: FailureCode, hint: str) -> Kind:
    """Failures that another attempt may cure."""
    return Kind(code, Category.TRANSIENT, hint)


def permanent(code: FailureCode, hint: str, *, final: bool = False) -> Kind:
    """Failures that another attempt does not cure by itself."""
    return Kind(code, Category.PERMANENT, hint, final)


def explain(ending: Ending) -> Failure | None:
    """Why an attempt that ended so did not succeed; `None` if nothing went wrong."""
    match ending:
        case Exited(0) | Released():
            return None
        case NotStarted(failure):
            return failure
        case _:
            return _kind_of_ending(ending).failure(_message(ending))


def brief(ending: Ending) -> str:
    """The ending in a few words, for the history of a task."""
    match ending:
        case Exited(code):
            return f"exit code {code}"
        case Signalled(number, oom):
            return f"ended by {_signal_name(number)}{' (out of memory)' if oom else ''}"
        case TimedOut(after_seconds):
            return f"timed out after {after_seconds:g} s"
        case Cancelled():
            return "cancelled"
        case OverLimit(what):
            return f"over its limit of {what}"
        case Lost(why):
            return f"worker lost: {why}"
        case Released(why):
            return f"released: {why}"
        case NotStarted(failure):
            return f"not started: {failure.message}"
        case _:
            assert_never(ending)


_Explained = Exited | Signalled | TimedOut | Cancelled | OverLimit | Lost


def _message(ending: _Explained) -> str:
    match ending:
        case Exited(code):
            return f"the command ended with exit code {code}"
        case Signalled(_, True):
            return "the kernel ended the command because memory ran out"
        case Signalled(number):
            return f"the command was ended by {_signal_name(number)}"
        case TimedOut(after_seconds):
            return f"the command was not done after {after_seconds:g} s and was ended"
        case Cancelled():
            return "a user cancelled the task"
        case OverLimit(what, limit, used, oom):
            memory_gone = "; the kernel ended it because memory ran out" if oom else ""
            told = f"the command used {used:.10g} of {what}, its limit is {limit:.10g}"
            return f"WORKER-005: {told}{memory_gone}"
        case Lost(why):
            return f"the worker died during the attempt: {why}"
        case _:
            assert_never(ending)


def _kind_of_ending(ending: _Explained) -> Kind:
    match ending:
        case Exited(code):
            return _kind_of_exit(code)
        case Signalled(_, True):
            return OUT_OF_MEMORY
        case Signalled(number):
            return permanent(FailureCode.EXIT_CODE, _SIGNAL_HINTS.get(number, _SEE_LOGS))
        case TimedOut():
            return _TIMED_OUT
        case Cancelled():
            return _CANCELLED
        case OverLimit(what):
            return permanent(FailureCode.RESOURCE_EXHAUSTED, _limit_hint(what))
        case Lost():
            return _WORKER_DIED
        case _:
            assert_never(ending)


def _kind_of_exit(code: int) -> Kind:
    if code == EX_TEMPFAIL:
        return transient(FailureCode.EXIT_CODE, "75 means that another attempt may succeed")
    hint = _EXIT_HINTS.get(code) or _shell_signal_hint(code) or _SEE_LOGS
    return permanent(FailureCode.EXIT_CODE, hint, final=code in (EX_NOPERM, EX_CONFIG))


def _shell_signal_hint(code: int) -> str:
    name = _known_signal(code - 128)
    return f"{code} is how a shell reports that {name} ended a program inside it" if name else ""


def _limit_hint(what: str) -> str:
    setting = f"raise workers.limits.{what} in config.yml"
    if what == "diskMb":  # no task gets more than that
        return f"{setting}, and --disk-mb if the task sets it"
    flag = {"memoryMb": "--memory-mb", "cpuPercent": "--cpu-percent"}
    return f"give the task more with {flag[what]}, or {setting}" if what in flag else setting


def _known_signal(number: int) -> str | None:
    try:
        return signal.Signals(number).name
    except ValueError:
        return None


def _signal_name(number: int) -> str:
    return _known_signal(number) or f"signal {number}"


_SEE_LOGS = "acode task logs ID shows what it printed"

_TIMED_OUT = transient(
    FailureCode.TIMEOUT, "give it more time with --timeout, or split it into smaller tasks"
)
_WORKER_DIED = transient(
    FailureCode.WORKER_CRASH,
    "acode worker logs tells more; a task that does this often is set aside",
)
OUT_OF_MEMORY = permanent(
    FailureCode.RESOURCE_EXHAUSTED, "give the task more with --memory-mb, or run fewer at once"
)
_CANCELLED = permanent(FailureCode.CANCELLED, "acode task retry ID queues it again", final=True)

_EXIT_HINTS: Final = {
    EX_NOPERM: "77 means that the command may not do this; it is not tried again",
    EX_CONFIG: "78 means that the command is configured wrongly; it is not tried again",
    126: "the command was found but may not be executed: check its mode (chmod +x)",
    127: "the command was not found: check its name and PATH",
    137: "137 is how a shell reports SIGKILL of a program inside it, often for want of memory",
}

_SIGNAL_HINTS: Final = {
    int(signal.SIGKILL): "something outside acode killed it; the system log may tell what",
    int(signal.SIGTERM): "something outside acode asked it to end",
    int(signal.SIGSEGV): "the program crashed: it touched memory that is not its own",
    int(signal.SIGABRT): "the program gave up by itself; its last lines usually say why",
    int(signal.SIGPIPE): "it wrote to a program that had already ended",
}
