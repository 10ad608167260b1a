"""`acode dashboard`: the pool in a terminal, or a link to the one in the browser."""

import sys

from acode.cli.context import Context
from acode.cli.parser import Command, Parser
from acode.errors import PoolNotRunning, ToolMissing, UsageError


def _arguments(parser: Parser) -> None:
    parser.add_argument("--compact", action="store_true", help="only what fits a small window")
    parser.add_argument(
        "--link", action="store_true", help="print a link that lets one browser into the web one"
    )


def _run(context: Context) -> int:
    if context.args.link:
        return _print_link(context)
    try:
        from acode.tui.dashboard import Dashboard
        from acode.tui.facts import Source
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "textual":
            raise
        raise ToolMissing(
            "the terminal dashboard is not installed", "pip install 'acode[tui]'"
        ) from None
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "the dashboard needs a terminal", "acode worker status --json is for scripts"
        )
    dashboard = Dashboard(Source(context.app), compact=context.args.compact)
    dashboard.run()
    return dashboard.return_code or 0


def _print_link(context: Context) -> int:
    from acode.cli.pool import look
    from acode.keys import login_link

    url = look(context)["apiUrl"]
    if url is None:
        raise PoolNotRunning(
            "there is no web dashboard",
            "it comes with acode worker start and pip install 'acode[web]'",
        )
    context.screen.line(login_link(context.app.project, url))
    return 0


COMMAND = Command(
    "dashboard",
    "watch the pool in the terminal, or get a link to the web dashboard",
    _run,
    (
        "acode dashboard",
        "acode dashboard --compact",
        "acode dashboard --link    for the browser; it works once",
    ),
    _arguments,
)
