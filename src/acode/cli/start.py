"""`acode worker start`: a daemon in the background, or in this command's place."""

import os
from argparse import Namespace
from typing import Any

from acode.cli.context import Context
from acode.cli.parser import Parser, values, whole_number
from acode.engine.launch import become, launch
from acode.engine.lock import holder
from acode.engine.options import DaemonOptions
from acode.engine.tools import locate
from acode.errors import PoolRunning, WorkerStartFailed
from acode.human import number
from acode.keys import login_link
from acode.model.task import Mode


def start_arguments(parser: Parser) -> None:
    """What `worker start` takes."""
    size_arguments(parser)
    for name, text in (
        ("--keep-worktrees", "keep the directories that tasks worked in, for a look afterwards"),
        ("--keep-containers", "keep the containers that tasks ran in, for a look afterwards"),
        ("--foreground", "stay in the foreground, for service managers"),
        ("--autoscale", "grow and shrink with the work (autoscale)"),
    ):
        parser.add_argument(name, action="store_true", help=text)


def size_arguments(parser: Parser) -> None:
    """How large a pool, and of what kind."""
    parser.add_argument(
        "--count",
        type=whole_number(-1_000_000_000),
        metavar="N",
        help="how many workers (workers.count)",
    )
    parser.add_argument("--mode", choices=values(Mode), help="how tasks are run (workers.mode)")


def start(context: Context) -> int:
    """Start the pool of this project."""
    app, screen = context.app, context.screen
    if holder(app.project.daemon_lock) is not None:
        raise PoolRunning("the worker pool of this project runs already")
    locate(app.settings.tools.required)
    options = daemon_options(context)
    app.project.prepare()
    if not screen.json:
        size = _first_size(context, options)
        screen.said(f"Starting worker pool with {number(size, 'worker')}...")
        screen.flush()
    _tell_gaps(context)
    if context.args.foreground:
        become(options)
    with screen.working("starting the workers"):
        told = launch(options, app.project.daemon_output)
    refuse_partial(told, app.project.daemon_output)
    _tell(context, options, told)
    return 0


def daemon_options(context: Context) -> DaemonOptions:
    """What the command line asks of the daemon, within the settings."""
    args = context.args
    return DaemonOptions(
        root=context.app.project.root,
        config=_config_file(args),
        count=_count(context),
        mode=_mode(context),
        autoscale=args.autoscale,
        keep_worktrees=args.keep_worktrees,
        keep_containers=args.keep_containers,
        foreground=args.foreground,
    )


def _config_file(args: Namespace) -> str | None:
    """Where it is whatever directory the daemon works in."""
    given: str | None = getattr(args, "config", None)
    return given and os.path.abspath(given)


def _count(context: Context) -> int | None:
    """How many were asked for, within the bounds."""
    count, workers = context.args.count, context.app.settings.workers
    if count is None:
        return None
    within = max(workers.min, min(count, workers.max))
    if within != count:
        bound = "workers.max" if count > within else "workers.min"
        context.screen.note(f"{within} instead of {count}: {bound} is {within}")
    return int(within)


def _mode(context: Context) -> Mode:
    """As asked for, if it can be had."""
    wanted = Mode(context.args.mode or context.app.settings.workers.mode)
    if wanted is Mode.PROCESS:
        return wanted
    from acode.cli.containers import usable_mode  # only where somebody wants containers

    return usable_mode(context)


def _first_size(context: Context, options: DaemonOptions) -> int:
    settings = context.app.settings
    if options.count is not None:
        return options.count
    grows = options.autoscale or settings.autoscale.enabled
    return settings.autoscale.initial if grows else settings.workers.count


def refuse_partial(told: Any, output: str) -> None:
    """Complain if not every worker is up."""
    workers, missing = told["workers"], told["workers"] - told["started"]
    if not missing:
        return
    reasons = "; ".join(told["reasons"])
    if missing == workers:
        raise WorkerStartFailed(f"no worker could be started: {reasons}", f"see {output}")
    raise WorkerStartFailed(
        f"{missing} of {number(workers, 'worker')} could not be started: {reasons}",
        f"the others work and these are tried again; see {output}",
    )


def _tell(context: Context, options: DaemonOptions, told: Any) -> None:
    screen = context.screen
    if screen.json:
        from acode.cli.pool import look

        screen.data(look(context))
        return
    screen.said("✓ Worker pool started")
    screen.said(f"  Workers: {told['workers']}")
    screen.said(f"  Mode: {options.mode}")
    screen.said(f"  Dashboard: {_dashboard(context, told['apiUrl'])}")


def _dashboard(context: Context, url: str | None) -> str:
    """Where it is, with a link that lets one browser in."""
    if url is not None:
        return login_link(context.app.project, url)
    if not context.app.settings.api.enabled:
        return "off (api.enabled)"
    return "not installed (pip install 'acode[web]')"


def _tell_gaps(context: Context) -> None:
    """What the kernel cannot enforce is said, never silently skipped."""
    from acode.runner.gaps import sandbox_gaps

    app, sandbox = context.app, context.app.settings.sandbox
    gaps = list(sandbox_gaps(sandbox.level, sandbox.network, app.project.root, sandbox.write_paths))
    for gap in gaps:
        context.screen.note(f"warning: on this machine tasks are not kept from {gap}")
    if gaps:
        context.screen.note("acode doctor tells what can be done about it")
