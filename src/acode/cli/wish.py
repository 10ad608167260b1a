"""`acode task cancel` and `acode task retry`: wishes about tasks that are there already."""

from acode.cli.context import Context, drive
from acode.cli.parser import Parser, add_id, add_ids
from acode.model.task import Task
from acode.views import status_view


def cancel_arguments(parser: Parser) -> None:
    """What `task cancel` takes."""
    add_ids(parser)
    parser.add_argument("--force", action="store_true", help="kill what runs, do not ask it to end")


def cancel(context: Context) -> int:
    """Cancel every task that was named."""
    store, force = context.app.reader(), context.args.force

    def cancel_one(task_id: str) -> Task:
        return drive(store.cancel(task_id, actor=context.actor, force=force))

    code = context.each(store, context.args.ids, cancel_one)
    context.ring()
    return code


def retry_arguments(parser: Parser) -> None:
    """What `task retry` takes."""
    add_id(parser)
    parser.add_argument(
        "--reset-attempts", action="store_true", help="forget the attempts that were made"
    )


def retry(context: Context) -> int:
    """Queue a failed or cancelled task again."""
    store, reset = context.app.reader(), context.args.reset_attempts
    task_id = context.resolve(store, context.args.id)
    task = drive(store.retry(task_id, actor=context.actor, reset_attempts=reset))
    context.ring()
    if context.screen.json:
        context.screen.data(status_view(task))
    else:
        context.screen.said(f"{task.id} {task.status}")
    return 0
