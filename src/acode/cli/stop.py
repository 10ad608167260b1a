"""`acode worker stop`: until the daemon is really gone."""

from contextlib import suppress

from acode.cli.context import Context
from acode.cli.parser import Parser
from acode.cli.pool import NOBODY
from acode.cli.render import Say
from acode.clock import Deadline
from acode.engine.client import ANSWER_SECONDS, Refused, ask
from acode.engine.lock import holder
from acode.errors import PoolNotRunning, WorkerTimeout
from acode.human import number
from acode.runner.grip import Grip, grip
from acode.views import View

LOOK_SECONDS = 0.5


def stop_arguments(parser: Parser) -> None:
    """What `worker stop` takes."""
    parser.add_argument(
        "--force", action="store_true", help="end what runs now; it goes back to the queue"
    )


def stop(context: Context) -> int:
    """Stop the pool of this project."""
    signed = holder(context.app.project.daemon_lock)
    daemon = grip(signed) if signed is not None else None
    if daemon is None:
        return _without_daemon(context)
    if not context.screen.json:
        context.screen.said("Stopping worker pool...")
        context.screen.flush()
    with daemon:
        end(context, daemon, force=context.args.force)
    _tell(context, "✓ Worker pool stopped", stopped=True)
    return 0


def _tell(context: Context, words: str, *, stopped: bool) -> None:
    if context.screen.json:
        context.screen.data({"stopped": stopped, "message": words.removeprefix("✓ ")})
    else:
        context.screen.said(words)


def _without_daemon(context: Context) -> int:
    """Workers outlive a daemon that was killed; only force ends them."""
    from acode.engine.halt import halt_workers, living_workers

    run_dir = context.app.project.run_dir
    left = len(living_workers(run_dir))
    if left and context.args.force:
        halt_workers(run_dir)
        _tell(context, f"✓ {number(left, 'worker')} without a daemon stopped", stopped=True)
        return 0
    _tell(context, NOBODY, stopped=False)
    if left:
        context.screen.note(
            f"{number(left, 'worker')} of one that was killed finish what they run; "
            "acode worker start takes them over, acode worker stop --force ends them"
        )
    return 0


def end(context: Context, daemon: Grip, *, force: bool) -> None:
    """Stop the daemon and wait until it is gone."""
    try:
        with context.screen.working("stopping") as say:
            _ask_to_stop(context, daemon, force=force)
            _wait(context, daemon, say)
    except KeyboardInterrupt:
        context.screen.note("the pool goes on stopping; acode worker status shows how far it is")
        raise
    except WorkerTimeout:
        if not force:
            raise WorkerTimeout(f"the daemon (pid {daemon.process.pid}) does not answer") from None
        _end_by_force(context, daemon)


def _ask_to_stop(context: Context, daemon: Grip, *, force: bool) -> None:
    """Tell the daemon; one that has just begun does not listen yet."""
    socket, deadline = context.app.project.control_socket, Deadline(ANSWER_SECONDS)
    while not daemon.ended(0):
        try:
            ask(socket, "stop", force=force)
        except PoolNotRunning:
            if not deadline.rest(0.05):
                raise WorkerTimeout("the daemon does not listen") from None
        else:
            return


def _wait(context: Context, daemon: Grip, say: Say) -> None:
    """Wait as long as the daemon shows signs of life."""
    patience = Deadline(ANSWER_SECONDS)
    while not daemon.ended(LOOK_SECONDS):
        try:
            with suppress(Refused):  # it has closed its store already, and lives
                say(_progress(ask(context.app.project.control_socket, "status")))
            patience = Deadline(ANSWER_SECONDS)
        except PoolNotRunning:  # it has hung up and is about to leave
            if patience.left() <= 0:
                raise WorkerTimeout("the daemon does not end") from None


def _progress(view: View) -> str:
    tasks = [worker["currentTaskId"] for worker in view["workers"] if worker["currentTaskId"]]
    if not tasks:
        return f"waiting for {number(len(view['workers']), 'worker')} to leave"
    return f"waiting for {number(len(tasks), 'task')}: {', '.join(tasks)}"


def _end_by_force(context: Context, daemon: Grip) -> None:
    from acode.engine.halt import halt_daemon, halt_workers

    context.screen.note(f"the daemon (pid {daemon.process.pid}) does not answer; it is killed")
    halt_daemon(daemon)
    halt_workers(context.app.project.run_dir)
