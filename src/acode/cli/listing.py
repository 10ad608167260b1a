"""`acode task list`: which tasks there are, once or for as long as one looks."""

from collections.abc import Iterator
from time import sleep

from acode.cli.context import Context, drive
from acode.cli.parser import Parser, values, whole_number
from acode.cli.render import Column
from acode.human import ago
from acode.model.priority import Priority
from acode.model.state import Status
from acode.model.task import Task
from acode.store.base import Sort, TaskQuery
from acode.views import label, row_view

REFRESH_SECONDS = 1.0
SORTS = ("created", "priority", "status")

COLUMNS = (
    Column("ID"),
    Column("STATUS", coloured=True),
    Column("PRIORITY", coloured=True),
    Column("WORKSTREAM"),
    Column("CREATED"),
    Column("TITLE"),
)


def list_arguments(parser: Parser) -> None:
    """What `task list` takes."""
    parser.add_argument(
        "--status",
        action="append",
        choices=values(Status),
        metavar="STATUS",
        help=f"{', '.join(Status)}; may be repeated",
    )
    parser.add_argument("--priority", choices=values(Priority), help="only this priority")
    parser.add_argument("--workstream", metavar="ID", help="only this workstream")
    parser.add_argument(
        "--limit", type=whole_number(1), default=50, metavar="N", help="at most so many (50)"
    )
    parser.add_argument(
        "--offset", type=whole_number(0), default=0, metavar="N", help="leave out the first N"
    )
    parser.add_argument("--sort", choices=SORTS, default=SORTS[0], help="the order (created)")
    parser.add_argument("--reverse", action="store_true", help="the other way round")
    parser.add_argument("--watch", action="store_true", help="go on showing them, until Ctrl-C")


def list_tasks(context: Context) -> int:
    """Print the tasks that fit."""
    if context.args.watch:
        _watch(context)
    limit: int = context.args.limit
    # One more than is shown tells whether there are more.
    found = drive(context.app.reader().find(_query(context, limit + 1)))
    _print(context, found[:limit])
    if len(found) > limit:
        context.screen.note(
            f"there are more than these {limit}; "
            "--limit and --offset show others, --reverse shows the newest"
        )
    return 0


def _query(context: Context, limit: int) -> TaskQuery:
    args = context.args
    return TaskQuery(
        statuses=tuple(Status(name) for name in args.status or ()),
        priority=args.priority and Priority(args.priority),
        workstream_id=args.workstream,
        limit=limit,
        offset=args.offset,
        sort=Sort(by=args.sort, reverse=args.reverse),
    )


def _print(context: Context, tasks: list[Task]) -> None:
    screen = context.screen
    if screen.json:
        defaults = context.app.settings.tasks
        screen.data([row_view(task, defaults) for task in tasks])
    elif screen.quiet:
        for task in tasks:
            screen.line(task.id)
    elif tasks:
        screen.table(COLUMNS, rows(tasks, context.app.clock.now()))
    else:
        screen.note("no tasks")


def rows(tasks: list[Task], now: int) -> list[list[str]]:
    """Tasks as cells."""
    return [
        [
            task.id,
            task.status,
            task.spec.priority,
            task.spec.workstream_id or "-",
            ago(task.created_at, now),
            label(task.spec),
        ]
        for task in tasks
    ]


def _watch(context: Context) -> None:
    """Show the tasks, and show them again whenever they change. Ends by Ctrl-C."""
    screen = context.screen
    if screen.terminal and not (screen.json or screen.quiet):
        from acode.cli.pretty import live_table

        with live_table(COLUMNS, colour=screen.colour) as show:
            for tasks in _looks(context):
                show(rows(tasks, context.app.clock.now()))
    before = None
    for tasks in _looks(context):
        if tasks != before:
            _print(context, tasks)
            screen.flush()
        before = tasks


def _looks(context: Context) -> Iterator[list[Task]]:
    query = _query(context, context.args.limit)
    while True:
        yield drive(context.app.reader().find(query))
        sleep(REFRESH_SECONDS)
