"""`acode task wait`: until tasks are finished, or the time is up."""

from math import inf

from acode.cli.context import Context, drive
from acode.cli.parser import Parser, add_ids, seconds
from acode.cli.render import report
from acode.clock import Deadline
from acode.human import number
from acode.model.state import FINISHED, Status
from acode.model.task import Task
from acode.store.base import Store

FIRST_REST = 0.05
LONGEST_REST = 0.5


def wait_arguments(parser: Parser) -> None:
    """What `task wait` takes."""
    add_ids(parser)
    parser.add_argument("--timeout", type=seconds, metavar="SECONDS", help="give up after so long")


def wait(context: Context) -> int:
    """Wait for tasks and tell how they ended."""
    store = context.app.reader()
    ids = context.resolve_all(store, context.args.ids)
    tasks = _wait(context, store, ids)
    context.tell(tasks)
    late = [task for task in tasks if task.status not in FINISHED]
    if late:
        report(
            "TIMEOUT",
            f"{number(len(late), 'task')} not finished after {context.args.timeout:g} s",
            f"acode task why {late[0].id} tells what it waits for",
        )
    return 0 if all(task.status is Status.COMPLETED for task in tasks) else 1


def _wait(context: Context, store: Store, ids: list[str]) -> list[Task]:
    """The tasks when all are finished, or when the time is up."""
    deadline = Deadline(inf if context.args.timeout is None else context.args.timeout)
    finished: dict[str, Task] = {}
    rest = FIRST_REST
    with context.screen.working("waiting") as say:
        while True:
            tasks = [finished.get(task_id) or drive(store.get(task_id)) for task_id in ids]
            finished = {task.id: task for task in tasks if task.status in FINISHED}
            say(f"waiting: {len(finished)} of {number(len(ids), 'task')} finished")
            # Other processes move the tasks, and no bell of theirs reaches this one.
            if len(finished) == len(ids) or not deadline.rest(rest):
                return tasks
            rest = min(rest * 1.5, LONGEST_REST)
