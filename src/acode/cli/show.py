"""`acode task show`: everything about one task."""

from collections.abc import Mapping
from typing import Any

from msgspec.json import encode

from acode.cli.context import Context, drive
from acode.cli.render import Column
from acode.clock import iso
from acode.human import ago, number, size, span
from acode.ids import host_name
from acode.model.task import Attempt, Move, Task
from acode.views import View, attempt_view, task_view

ATTEMPTS = (
    Column("ATTEMPT"),
    Column("WORKER"),
    Column("STARTED"),
    Column("TOOK"),
    Column("CPU"),
    Column("MEMORY"),
    Column("ENDING"),
)
HISTORY = (Column("WHEN"), Column("STATUS", coloured=True), Column("BY"), Column("WHY"))


def show(context: Context) -> int:
    """Print one task."""
    store, screen, now = context.app.reader(), context.screen, context.app.clock.now()
    record = drive(store.record(context.resolve(store, context.args.id)))
    view = task_view(record, context.app.settings.tasks)
    if screen.json:
        screen.data(view)
        return 0
    screen.fields({**_asked(view), **_times(record.task, now), **_outcome(view)})
    if record.attempts:
        screen.heading("Attempts")
        several = len({attempt.host_id for attempt in record.attempts}) > 1
        columns = (*ATTEMPTS, Column("HOST")) if several else ATTEMPTS
        screen.table(columns, [_attempt(each, now, several=several) for each in record.attempts])
    screen.heading("History")
    screen.table(HISTORY, [_move(move, now) for move in record.history])
    return 0


def _asked(view: View) -> dict[str, str | None]:
    """What the user wants."""
    return {
        "Id": view["id"],
        "Title": view["title"],
        "Status": view["status"],
        "Command": " ".join([view["command"], *view["args"]]),
        "Type": view["type"],
        "Priority": view["priority"],
        "Workstream": view["workstreamId"],
        "Environment": _pairs(view["env"]),
        "Timeout": span(round(view["timeoutSeconds"] * 1000)),
        "Retries": str(view["retryLimit"]),
        "Mode": view["mode"],
        "Workspace": view["workspace"],
        "Base": _base(view),
        "Directory": view["cwd"],
        "Key": view["key"],
        "Limits": _pairs(view["limits"]),
        "After": "\n".join(view["dependencies"]),
        "Artifacts": "\n".join(view["artifacts"]),
        "Metadata": _pairs(view["metadata"]),
    }


def _times(task: Task, now: int) -> dict[str, str | None]:
    """When it happened."""
    return {
        "Created": _moment(task.created_at, now),
        "Ready": _moment(task.ready_at, now) if task.ready_at != task.created_at else None,
        "Started": _moment(task.started_at, now),
        "Completed": _moment(task.completed_at, now),
    }


def _outcome(view: View) -> dict[str, str | None]:
    """What came of it."""
    error = view["error"]
    return {
        "Took": None if view["durationMs"] is None else span(view["durationMs"]),
        "Worker": view["workerId"] and f"worker-{view['workerId']}",
        "Host": view["host"],
        "Exit code": None if view["exitCode"] is None else str(view["exitCode"]),
        "Error": error and f"{error['code']} ({error['category']}): {error['message']}",
        "Hint": error and error["hint"],
        "Branch": view["branch"],
        "Pushed": view["push"] and _push(view["push"]),
        "Patch": view["patch"],
        "Value": None if view["value"] is None else encode(view["value"]).decode(),
        "Agent": view["agent"] and _agent(view["agent"]),
    }


def _base(view: View) -> str | None:
    word, commit = view["base"], view["baseCommit"]
    return word if commit is None or commit == word else f"{word or 'HEAD'} ({commit})"


def _push(push: View) -> str:
    problem = push["problem"]
    where = push["remote"]
    return f"to {where}" if problem is None else f"not yet; {where} is tried again: {problem}"


def _agent(run: View) -> str:
    cost, turns = run["costUsd"], run["turns"]
    parts = [
        run["model"],
        None if turns is None else number(turns, "turn"),
        None if cost is None else f"${cost:.4f}",
        run["sessionId"] and f"session {run['sessionId']}",
    ]
    return "\n".join(filter(None, [", ".join(filter(None, parts)), run["result"]]))


def _attempt(attempt: Attempt, now: int, *, several: bool) -> list[str]:
    ended, usage = attempt.ended_at, attempt.usage
    return [
        str(attempt.number),
        f"worker-{attempt.worker_id}",
        ago(attempt.started_at, now),
        "-" if ended is None else span(ended - attempt.started_at),
        "-" if usage is None else span(round(usage.cpu_seconds * 1000)),
        "-" if usage is None else size(usage.max_memory_bytes),
        _ending(attempt_view(attempt)),
        *([host_name(attempt.host_id) or "-"] if several else []),
    ]


def _ending(view: View) -> str:
    words = [view["ending"] or "running"]
    if view["exitCode"] is not None:
        words.append(f"with {view['exitCode']}")
    if view["signal"] is not None:
        words.append(f"by signal {view['signal']}")
    if view["oom"]:
        words.append("out of memory")
    return " ".join(words)


def _move(move: Move, now: int) -> list[str]:
    return [f"{iso(move.at)} ({ago(move.at, now)})", move.became, move.actor, move.reason]


def _moment(moment: int | None, now: int) -> str | None:
    return None if moment is None else f"{iso(moment)} ({ago(moment, now)})"


def _pairs(values: Mapping[str, Any]) -> str:
    return "\n".join(f"{name}={value}" for name, value in values.items() if value is not None)
