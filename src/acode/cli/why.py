"""`acode task why`: why a task runs or does not, in plain sentences."""

from acode.cli.context import Context, drive
from acode.cli.pool import look
from acode.errors import WorkerTimeout
from acode.views import View, is_at_work
from acode.why import Case, reasons


def why(context: Context) -> int:
    """Explain one task."""
    store = context.app.reader()
    record = drive(store.record(context.resolve(store, context.args.id)))
    case = Case(record, store, context.app.clock.now(), _pool(context))
    found = drive(reasons(case))
    task, screen = record.task, context.screen
    if screen.json:
        screen.data({"id": task.id, "status": task.status, "reasons": found})
        return 0
    screen.text(f"{task.id} is {task.status}:")
    for reason in found:
        screen.text(f"  {reason}")
    return 0


def _pool(context: Context) -> View | None:
    try:
        view = look(context)
    except WorkerTimeout:
        return None
    return view if is_at_work(view) else None
