"""`acode bench`: what this installation does on this machine."""

from argparse import ArgumentTypeError

from acode.cli.context import Context
from acode.cli.parser import Command, Parser
from acode.cli.render import Column

PARTS = ("disk", "queue", "spawn", "worktree")


def _bench(context: Context) -> int:
    from acode.cli.gauges import GAUGES, QUICK, Reading, Scale

    context.app.project.prepare()
    scale = QUICK if context.args.quick else Scale()
    readings: list[Reading] = []
    with context.screen.working("measuring") as say:
        for name in context.args.parts or PARTS:
            say(f"measuring {name}")
            readings += GAUGES[name](context.app.project.run_dir, scale)
    if context.screen.json:
        context.screen.data({one.name: {"value": one.value, "unit": one.unit} for one in readings})
        return 0
    rows = [(one.name, _shown(one.value), one.unit, one.note) for one in readings]
    names = ("MEASURE", "VALUE", "UNIT", "WHAT")
    context.screen.table([Column(name) for name in names], rows)
    return 0


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:,g}"


def _part(text: str) -> str:
    if text not in PARTS:
        raise ArgumentTypeError(f"{text!r} is none of {', '.join(PARTS)}")
    return text


def _arguments(parser: Parser) -> None:
    parser.add_argument(
        "parts",
        metavar="PART",
        nargs="*",
        type=_part,
        help=f"only these: {', '.join(PARTS)}",
    )
    parser.add_argument("--quick", action="store_true", help="measure less, in a few seconds")


COMMAND = Command(
    "bench",
    "measure this installation: disk, queue, spawning and latency, worktrees",
    _bench,
    ("acode bench", "acode bench queue worktree", "acode bench --quick", "acode bench --json"),
    _arguments,
)
