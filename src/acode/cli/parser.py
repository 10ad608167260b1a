"""How commands are declared, and the parser that is built for the words at hand."""

import argparse
import os
from argparse import SUPPRESS
from collections.abc import Callable, Iterable
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from acode.errors import UsageError
from acode.human import clean

if TYPE_CHECKING:
    from acode.cli.context import Context


class Help(argparse.RawDescriptionHelpFormatter):
    """Knows its width without importing shutil, which argparse would do for every option."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_width() - 2, max_help_position=28)


def _width() -> int:
    try:
        return int(os.environ.get("COLUMNS") or os.get_terminal_size().columns)
    except (ValueError, OSError):
        return 80


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are errors like all others."""

    def __init__(self, *, prog: str, description: str, epilog: str | None = None) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            formatter_class=Help,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        raise UsageError(clean(message), f"{self.prog} --help shows how it is written")


def lazily(module: str, name: str) -> Callable[..., Any]:
    """A function of a module that is imported when it is first called."""

    def call(argument: object) -> object:
        return getattr(import_module(module), name)(argument)

    return call


class Command(NamedTuple):
    """One command: what it is for, what it takes, what it does, how it is used."""

    name: str
    help: str
    run: Callable[["Context"], int]
    examples: tuple[str, ...]
    arguments: Callable[[Parser], None] = lambda _parser: None


if TYPE_CHECKING:
    Children = argparse._SubParsersAction[Parser]


def add_globals(parser: Parser) -> None:
    """The options that every command takes, before and after its name."""
    # Suppressed defaults: what was given before the name must not be reset after it.
    options = parser.add_argument_group("everywhere")
    options.add_argument("--project", metavar="DIR", default=SUPPRESS, help="the project directory")
    options.add_argument(
        "--config", metavar="FILE", default=SUPPRESS, help="settings instead of .agent/config.yml"
    )
    for name, text in (
        ("--json", "answer in JSON"),
        ("--quiet", "print only what was asked for, and errors"),
        ("--no-color", "no colours (NO_COLOR does the same)"),
        ("--version", "print the version"),
    ):
        options.add_argument(name, action="store_true", default=SUPPRESS, help=text)


def add_children(parser: Parser, *, required: bool = True) -> "Children":
    """A place for the names that may follow."""
    return parser.add_subparsers(
        # Given, because argparse would format a usage text to find it.
        prog=parser.prog,
        title="commands",
        metavar="COMMAND",
        required=required,
        parser_class=Parser,
    )


def add_command(children: "Children", prog: str, command: Command) -> None:
    """Teach the parser one command."""
    lines = "\n".join(f"  {line}" for line in command.examples)
    parser = children.add_parser(
        command.name,
        prog=prog,
        help=command.help,
        description=command.help,
        epilog=f"examples:\n{lines}",
    )
    command.arguments(parser)
    add_globals(parser)
    parser.set_defaults(run=command.run, prog=prog)


def add_noun(children: "Children", prog: str, text: str, commands: Iterable[Command]) -> None:
    """Teach the parser a noun and the commands that follow it."""
    noun = prog.rpartition(" ")[2]
    parser = children.add_parser(noun, prog=prog, help=text, description=text)
    add_globals(parser)
    verbs = add_children(parser)
    for command in commands:
        add_command(verbs, f"{prog} {command.name}", command)


def add_id(parser: Parser) -> None:
    """The id of one task."""
    action = parser.add_argument("id", metavar="ID", help="a task id or a unique prefix of one")
    completes_ids(action)


def add_ids(parser: Parser, nargs: str = "+") -> None:
    """The ids of some tasks."""
    action = parser.add_argument(
        "ids", metavar="ID", nargs=nargs, help="task ids or unique prefixes"
    )
    completes_ids(action)


def completes_ids(action: argparse.Action) -> None:
    """Let the shell offer the ids of tasks here."""
    action.completer = _task_ids  # type: ignore[attr-defined]  # what argcomplete looks for


def _task_ids(prefix: str, parsed_args: argparse.Namespace, **_: object) -> dict[str, str]:
    from acode.cli.completion import task_ids

    return task_ids(prefix, parsed_args)


def values(names: type[StrEnum]) -> list[str]:
    """The words that an option may have."""
    return [name.value for name in names]


def whole_number(low: int, high: int = 1_000_000_000) -> Callable[[str], int]:
    """Numbers without a fraction, within bounds."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            bounds = f"from {low:,} to {high:,}"
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number {bounds}")
        return value

    return parse


def seconds(text: str) -> float:
    """A span in seconds."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1e9:  # a comparison with nan is false, too
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return value
