"""`acode worker status`, `list` and `scale`: a look at the pool, and another size for it."""

from collections.abc import Iterator
from time import sleep
from typing import Any

from acode.cli.context import Context, drive
from acode.cli.parser import Parser, whole_number
from acode.cli.render import Column
from acode.engine.client import ask
from acode.errors import PoolNotRunning, StoreUnavailable
from acode.human import number, size, span
from acode.views import View, no_pool_view, shared_view

REFRESH_SECONDS = 1.0
SCALE_SECONDS = 120.0
"""Far beyond what starting the largest pool takes."""

NOBODY = "no worker pool is running"
COLUMNS = (
    Column("ID"),
    Column("STATUS", coloured=True),
    Column("PID"),
    Column("DONE"),
    Column("FAILED"),
    Column("TASK"),
)


def status_arguments(parser: Parser) -> None:
    """What `worker status` takes."""
    parser.add_argument("--watch", action="store_true", help="go on showing it, until Ctrl-C")


def status(context: Context) -> int:
    """Print the pool at a glance."""
    if context.args.watch:
        _watch(context)
    _print(context, look(context))
    return 0


def look(context: Context) -> View:
    """What the daemon says of its pool, and others of theirs; without one, what the store says."""
    try:
        view: View = ask(context.app.project.control_socket, "status")
    except PoolNotRunning:
        view = _nobody(context)
        is_shared = context.app.settings.store.is_shared and not view["backpressure"]
        return _with_others(context, view) if is_shared else view
    # A daemon that gets no answer from the database has waited for it long enough.
    current = view["hosts"] and view["hosts"][0]["isCurrent"]
    return _with_others(context, view) if current else view


def _with_others(context: Context, view: View) -> View:
    """The pools of all hosts that share the queue."""
    from acode.hosts import known_host_id

    try:
        hosts = drive(context.app.reader().hosts())
    except StoreUnavailable:
        return view  # which says itself that the database does not answer
    return shared_view(view, hosts, known_host_id(context.app.project))


def _nobody(context: Context) -> View:
    mode = context.app.settings.workers.mode
    try:
        return no_pool_view(drive(context.app.reader().counts()), mode)
    except StoreUnavailable as trouble:
        return no_pool_view(None, mode, f"the queue cannot be read: {trouble}")


def _print(context: Context, view: View) -> None:
    if context.screen.json:
        context.screen.data(view)
        return
    for line in lines(view):
        context.screen.text(line)


def lines(view: View) -> Iterator[str]:
    """The pool as people read it."""
    yield "Worker Pool Status"
    yield "=================="
    yield f"  Running: {'yes' if view['isRunning'] else 'no'}"
    yield f"  Mode:    {view['mode']}"
    if view["isRunning"]:
        yield f"  Uptime:  {span(round(view['uptimeSeconds'] * 1000))}"
    yield f"  Active:  {view['activeCount']}"
    yield f"    Idle:  {view['idleCount']}"
    yield f"    Busy:  {view['busyCount']}"
    several = is_several(view)
    for worker in view["workers"]:
        where = f" on {worker['host']}" if several else ""
        yield f"  - worker-{worker['id']}{where}: {_doing(worker)}"
    yield from _lost(view)
    yield ""
    yield "  Queue:"
    yield f"    Pending: {view['pendingTasks']}"
    yield f"    Running: {view['runningTasks']}"
    if view["backpressure"]:
        yield f"    Held back: {view['backpressure']}"
    yield ""
    yield "  Resources:"
    yield f"    CPU:    {view['resources']['cpuPercent']:.1f}%"
    yield f"    Memory: {size(round(view['resources']['memoryBytes']))}"


def is_several(view: View) -> bool:
    """Whether it has to be said on which host a worker is."""
    return len(view["hosts"]) > 1


def _lost(view: View) -> Iterator[str]:
    for host in view["hosts"]:
        if host.get("lostAt"):
            yield f"  - {host['name']}: silent since {host['seenAt']}, its tasks run elsewhere"


def _doing(worker: View) -> str:
    task = worker["currentTaskId"]
    return f"{worker['status']} (task {task})" if task else str(worker["status"])


def _watch(context: Context) -> None:
    """Show the pool again and again. Ends by Ctrl-C."""
    screen = context.screen
    if screen.terminal and not screen.json:
        from acode.cli.pretty import live_text

        with live_text(colour=screen.colour) as show:
            for view in _looks(context):
                show("\n".join(lines(view)))
    for view in _looks(context):
        _print(context, view)
        screen.flush()


def _looks(context: Context) -> Iterator[View]:
    while True:
        yield look(context)
        sleep(REFRESH_SECONDS)


def list_workers(context: Context) -> int:
    """Print the workers."""
    view, screen = look(context), context.screen
    workers = view["workers"]
    if screen.json:
        screen.data(workers)
    elif screen.quiet:
        for worker in workers:
            screen.line(f"worker-{worker['id']}")
    elif workers:
        several = is_several(view)
        columns = (*COLUMNS, Column("HOST")) if several else COLUMNS
        screen.table(columns, [_row(worker, several=several) for worker in workers])
    else:
        screen.note(NOBODY)
    return 0


def _row(worker: View, *, several: bool) -> list[str]:
    return [
        f"worker-{worker['id']}",
        worker["status"],
        str(worker["pid"] or "-"),
        str(worker["tasksCompleted"]),
        str(worker["tasksFailed"]),
        worker["currentTaskId"] or "-",
        *([worker["host"]] if several else []),
    ]


def scale_arguments(parser: Parser) -> None:
    """What `worker scale` takes."""
    parser.add_argument(
        "count", type=whole_number(-1_000_000_000), metavar="N", help="how many workers"
    )


def scale(context: Context) -> int:
    """Give the pool another size."""
    screen, socket = context.screen, context.app.project.control_socket
    with screen.working("scaling"):
        done: Any = ask(socket, "scale", count=context.args.count, seconds=SCALE_SECONDS)
    if screen.json:
        screen.data(done)
        return 0
    screen.said(f"Worker pool scaled to {number(done['count'], 'worker')}")
    if done["message"]:
        screen.note(done["message"])
    return 0
