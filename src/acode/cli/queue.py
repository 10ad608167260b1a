"""`acode queue …`: the queue as a whole."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from acode.cli.context import Context, drive
from acode.cli.migrate import MIGRATE
from acode.cli.parser import Command, Parser
from acode.engine.client import ask
from acode.errors import AlreadyThere, PoolNotRunning, StoreDamaged, StoreUnusable, WorkerTimeout
from acode.human import ago, number, size
from acode.store.base import Counts, Tidied
from acode.views import View, counts_view

DAY_MS = 86_400_000


def _pause(context: Context) -> int:
    return _hold(context, paused=True)


def _resume(context: Context) -> int:
    _lift_pauses(context)
    return _hold(context, paused=False)


def _lift_pauses(context: Context) -> None:
    """Tasks of agents whose usage limit was reached are tried again, too."""
    try:
        ask(context.app.project.control_socket, "lift")
    except (PoolNotRunning, WorkerTimeout):
        with suppress(FileNotFoundError):
            os.unlink(context.app.project.pauses_file)


def _hold(context: Context, *, paused: bool) -> int:
    store = context.app.store() if paused else context.app.reader()
    changed = drive(store.pause(paused, actor=context.actor))
    context.ring()
    if context.screen.json:
        context.screen.data({"paused": paused, "changed": changed})
        return 0
    standing = "paused: nothing new is started" if paused else "open: tasks are started"
    context.screen.said(f"the queue is {standing}{'' if changed else ', as it was before'}")
    return 0


def _status(context: Context) -> int:
    existing, screen = context.app.existing_store(), context.screen
    counts = drive((existing or context.app.reader()).counts())
    store, recovery = existing.describe() if existing else None, _last_recovery(context)
    if screen.json:
        screen.data({**counts_view(counts), "store": store, "recovery": recovery})
        return 0
    screen.fields(
        {
            **_counted(counts, context.app.clock.now()),
            **_described(store),
            "Pool": "not running" if recovery is None else "running",
            "Recovery": "\n".join(_recovered(recovery)) if recovery else None,
        }
    )
    return 0


def _last_recovery(context: Context) -> View | None:
    """What the running daemon found when it started; None if none runs, or none that answers."""
    try:
        found: View = ask(context.app.project.control_socket, "recovery")
    except (PoolNotRunning, WorkerTimeout):
        return None
    return found


def _recovered(recovery: View) -> Iterator[str]:
    """What a daemon did before its first claim, as people read it."""
    yield f"{number(len(recovery['adopted']), 'worker')} taken over"
    yield f"{number(len(recovery['continued']), 'task')} went on all the while"
    yield f"{number(len(recovery['reported']), 'task')} had ended meanwhile"
    yield f"{number(len(recovery['lost']), 'task')} lost with their workers"
    yield from recovery["problems"]


def _described(store: Mapping[str, Any] | None) -> dict[str, str | None]:
    if store is None:
        return {"Store": "none yet; acode task add makes one"}
    return {
        "Store": store["path"],
        "Size": size(store["bytes"]) + _of_wal(store),
        "Schema": str(store["schemaVersion"]),
    }


def _of_wal(store: Mapping[str, Any]) -> str:
    return f", and {size(store['walBytes'])} of WAL" if "walBytes" in store else ""


def _counted(counts: Counts, now: int) -> dict[str, str | None]:
    levels, oldest = counts.pending_by_priority, counts.oldest_ready_at
    return {
        "Queue": "paused" if counts.paused else "open",
        **{status.capitalize(): f"{counts.by_status[status]:,}" for status in counts.by_status},
        "Waiting": ", ".join(f"{levels[level]:,} {level}" for level in levels if levels[level]),
        "Oldest": None if oldest is None else f"ready {ago(oldest, now)}",
    }


def _check(context: Context) -> int:
    with context.screen.working("checking"):
        problems = drive(context.app.reader().check())
    if context.screen.json:
        context.screen.data({"ok": not problems, "problems": problems})
        return 1 if problems else 0
    _refuse(problems)
    context.screen.said("the store is sound")
    return 0


def _refuse(problems: list[str]) -> None:
    if problems:
        hint = "restore the last file made by acode queue backup"
        raise StoreDamaged("\n".join(problems), hint)


def _backup_arguments(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="the new file; it must not be there yet")


def _backup(context: Context) -> int:
    path = os.path.abspath(context.args.file)
    store = context.app.existing_store()
    if store is None:
        raise StoreUnusable("there is no store yet", "acode task add makes one")
    if os.path.lexists(path):
        raise AlreadyThere(f"{path} is there already")
    with context.screen.working("copying"):
        drive(store.backup(path))
    if context.screen.json:
        context.screen.data({"path": path, "bytes": os.path.getsize(path)})
    else:
        context.screen.said(f"{path} ({size(os.path.getsize(path))})")
    return 0


def _recover(context: Context) -> int:
    with context.screen.working("checking"):
        problems = drive(context.app.reader().check())
        # Rows that are moved while others are wrong are harder to put right.
        tidied = Tidied() if problems else _tidy(context)
    if context.screen.json:
        counts = {"archived": tidied.archived, "checkpoints": tidied.checkpoints}
        last = {"recovery": _last_recovery(context)}
        context.screen.data({"ok": not problems, "problems": problems, **counts, **last})
        return 1 if problems else 0
    _refuse(problems)
    context.screen.said("the store is sound")
    context.screen.said(f"{number(tidied.archived, 'finished task')} archived")
    context.screen.said(f"{number(tidied.checkpoints, 'old checkpoint')} removed")
    if (recovery := _last_recovery(context)) is not None:
        context.screen.said("when the running pool was started:")
        for line in _recovered(recovery):
            context.screen.said(f"  {line}")
    return 0


def _tidy(context: Context) -> Tidied:
    now, tasks = context.app.clock.now(), context.app.settings.tasks
    return drive(
        context.app.reader().tidy(
            finished_before=now - round(tasks.keep_history_days * DAY_MS),
            steps_before=now - round(tasks.checkpoint_max_age_days * DAY_MS),
        )
    )


COMMANDS = (
    Command("status", "show the queue at a glance", _status, ("acode queue status --json",)),
    Command("pause", "start nothing new; what runs goes on", _pause, ("acode queue pause",)),
    Command("resume", "let the queue go on", _resume, ("acode queue resume",)),
    Command(
        "check",
        "look for damage; exit 1 and list it if there is some",
        _check,
        ("acode queue check",),
    ),
    Command(
        "recover",
        "check the store, archive old finished tasks, remove old checkpoints",
        _recover,
        ("acode queue recover", "acode queue recover --json"),
    ),
    Command(
        "backup",
        "copy the queue to a new file while it is in use",
        _backup,
        ("acode queue backup ~/queue-monday.db",),
        _backup_arguments,
    ),
    MIGRATE,
)
