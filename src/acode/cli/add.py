"""`acode task add`: from a command line, a file or a pipe to durable tasks."""

import sys
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from acode.cli.context import Context, drive
from acode.cli.parser import Parser, completes_ids, values
from acode.cli.render import Column
from acode.errors import FileUnreadable, UsageError
from acode.human import number
from acode.ids import new_id
from acode.model.priority import Priority
from acode.model.task import Mode, Submission, WorkspaceKind
from acode.spec import TYPES, draft_from_flags, read_batch
from acode.spec.draft import Draft, submissions
from acode.store.base import Added
from acode.views import View, added_view, label, spec_view

AFTER_DASHES = "a command goes after --, for example: acode task add -- make test"
USAGE = """acode task add [OPTIONS] -- COMMAND [ARG ...]
       acode task add FILE|- [--dry-run]"""
DESCRIPTION = """queue a command, or the tasks of a file

A COMMAND alone is a line for /bin/sh; with ARGs it is executed directly.
A FILE is added whole or not at all. It says everything about its tasks, so
the options that describe a task go with a COMMAND only."""
FILE_HELP = "tasks as YAML, JSON, JSON lines, or one command to a line; - is standard input"
DRY_COLUMNS = (Column("PRIORITY", coloured=True), Column("TYPE"), Column("TITLE"))

_TEXTS = {
    "title": ("TEXT", "what to call it"),
    "type": ("TYPE", f"{', '.join(TYPES)} or a configured agent (shell)"),
    "workstream": ("ID", "tasks of one workstream prefer the same worker"),
    "timeout": ("SECONDS", "how long an attempt may take"),
    "retries": ("N", "how often a failure is tried again"),
    "base": ("REF", "the commit that the workspace starts from"),
    "cwd": ("DIR", "where to run it, inside the project"),
    "key": ("UNIQUE", "add it only if no task has this key"),
    "delay": ("SECONDS", "start it no sooner than this"),
    "memory-mb": ("N", "memory that an attempt may use"),
    "cpu-percent": ("N", "percent of one core that an attempt may use"),
    "disk-mb": ("N", "disk that an attempt may use"),
}
_CHOICES = {
    "priority": (Priority, "how urgent it is (medium)"),
    "mode": (Mode, "how it is run"),
    "workspace": (WorkspaceKind, "where it works"),
}
_LISTS = {
    "env": ("K=V", "a variable for the command; may be repeated"),
    "after": ("ID", "wait until this task is completed; may be repeated"),
    "artifact": ("GLOB", "files to keep; may be repeated"),
    "meta": ("K=V", "a note to keep with the task; may be repeated"),
}
FLAGS = (*_TEXTS, *_CHOICES, *_LISTS)


def add_arguments(parser: Parser) -> None:
    """What `task add` takes. Values are checked by `spec`, like those of files."""
    parser.usage = USAGE
    parser.description = DESCRIPTION
    parser.add_argument("file", metavar="FILE", nargs="?", help=FILE_HELP)
    for name, (metavar, text) in _TEXTS.items():
        parser.add_argument(f"--{name}", metavar=metavar, help=text)
    for name, (choices, text) in _CHOICES.items():
        parser.add_argument(f"--{name}", choices=values(choices), help=text)
    for name, (metavar, text) in _LISTS.items():
        action = parser.add_argument(f"--{name}", action="append", metavar=metavar, help=text)
        if name == "after":
            completes_ids(action)
    parser.add_argument("--dry-run", action="store_true", help="check only; add nothing")


def add(context: Context) -> int:
    """Store tasks and print their ids."""
    drafts = _drafts(context)
    wanted = drive(
        submissions(
            drafts,
            new_id=lambda: new_id(context.app.clock.now()),
            # A wrong dependency must not make a store.
            resolve=lambda prefix: context.app.reader().resolve(prefix),
        )
    )
    if context.args.dry_run:
        _print_drafts(context, drafts)
    else:
        wanted = context.app.pinned(wanted)
        _print_added(context, _store(context, wanted), wanted)
    return 0


def _drafts(context: Context) -> list[Draft]:
    """What the user wants, checked."""
    args, app = context.args, context.app
    rules: Any = {
        "root": app.project.root,
        "types": app.settings.agents,
        "guard": app.guard,
        "ceilings": app.ceilings,
    }
    if args.command is None and args.file is None:
        raise UsageError("neither a FILE nor a command is given", AFTER_DASHES)
    if args.file is None:
        command, *others = args.command or [""]
        given = {**vars(args), "command": command, "args": others}
        return [draft_from_flags(given, **rules)]
    _refuse_flags(context)
    return read_batch(*read_tasks(args.file), **rules)


def _refuse_flags(context: Context) -> None:
    """A file says everything about its tasks."""
    if context.args.command is not None:
        raise UsageError("a FILE and a command after -- cannot be given together", AFTER_DASHES)
    given = [name for name in FLAGS if getattr(context.args, name.replace("-", "_")) is not None]
    if given:
        raise UsageError(
            f"--{given[0]} cannot be given with a FILE",
            "write it into the file, for each task that it is meant for",
        )


def read_tasks(path: str) -> tuple[bytes, str]:
    """The bytes of a file and its name; one byte more than allowed is enough to refuse it."""
    from acode.reading.document import MAX_BYTES

    if path == "-":
        return sys.stdin.buffer.read(MAX_BYTES + 1), "standard input"
    try:
        with open(path, "rb") as file:
            return file.read(MAX_BYTES + 1), path
    except OSError as error:
        raise FileUnreadable(f"{path}: {error.strerror}", AFTER_DASHES) from error


def _store(context: Context, wanted: Sequence[Submission]) -> list[Added]:
    size = context.app.settings.tasks.queue_size
    store, ring = context.app.store(), context.app.rope.pull
    return drive(store.add(wanted, actor=context.actor, queue_size=size, ring=ring))


def _print_added(context: Context, done: Sequence[Added], wanted: Sequence[Submission]) -> None:
    screen = context.screen
    if screen.json:
        _print_json(context, [added_view(each) for each in done])
    else:
        for each in done:
            screen.line(each.id)
    for each, submission in zip(done, wanted, strict=True):
        if each.existed:
            screen.note(
                f"{each.id} has the key {submission.spec.key!r} already; it is {each.status}"
            )


def _print_drafts(context: Context, drafts: Sequence[Draft]) -> None:
    screen = context.screen
    specs = [replace(draft.spec, dependencies=draft.after) for draft in drafts]
    if screen.json:
        _print_json(context, [spec_view(spec, context.app.settings.tasks) for spec in specs])
        return
    screen.table(DRY_COLUMNS, [[spec.priority, spec.type, label(spec)] for spec in specs])
    screen.note(f"{number(len(specs), 'task')} would be added; nothing was written")


def _print_json(context: Context, views: list[View]) -> None:
    """One task is an object, a batch an array."""
    context.screen.data(views[0] if len(views) == 1 else views)
