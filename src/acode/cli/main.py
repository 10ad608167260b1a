"""The `acode` command: finds what was asked for, runs it, and turns every failure into words."""

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from acode import __version__
from acode.cli import listen_to_interrupts
from acode.cli.parser import Command, Parser, add_children, add_command, add_globals, add_noun
from acode.cli.render import complain, report, silence
from acode.errors import AcodeError, UsageError

if TYPE_CHECKING:
    from acode.cli.context import Context

INTERRUPTED = 130

NOUNS = {
    "worker": "start, watch, scale and stop the pool that runs tasks",
    "task": "add, list, show, wait for, cancel, retry and explain tasks",
    "dlq": "list, show, retry and drop dead letters: tasks that failed for good",
    "queue": "pause, resume, inspect, check, tidy and back up the queue",
}
"""First words that a second one follows; each has a module of its name."""

NAMES = ("init", "run", *NOUNS, "dashboard", "doctor", "bench", "completion")
"""All first words, in the order of the help; the others are commands by themselves."""

EPILOG = """examples:
  acode init
  acode task add -- make test
  acode task add tasks.yml
  acode run tasks.yml
  acode worker start
  acode task list --status pending
  acode queue status --json

exit codes: 0 done, 1 failed or refused, 2 usage or configuration,
3 a required tool is missing, 130 interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; never raise, never print a traceback."""
    _prepare_streams()
    code = _guarded(lambda: run(list(sys.argv[1:] if argv is None else argv)))
    # What is still in the buffer may fail to be written, too.
    return _guarded(_flush) or code


def _guarded(action: Callable[[], int]) -> int:
    try:
        return action()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever read has seen enough
        return 1
    except AcodeError as error:
        complain(error)
        return error.exit_code
    except OSError as error:
        return _system_failed(error)
    except Exception as error:
        return _bug(error)


def _flush() -> int:
    try:
        sys.stdout.flush()
    except OSError:
        silence(sys.stdout)
        raise
    return 0


def run(words: list[str]) -> int:
    """Parse the words and run their command."""
    _check_text(words)
    if "_ARGCOMPLETE" in os.environ:
        _complete()
    words, command = _split(words)
    if "--version" in words:
        sys.stdout.write(f"acode {__version__}\n")
        return 0
    try:
        args, unknown = build(words).parse_known_args(words, Namespace(command=command))
    except SystemExit:  # --help has answered
        return 0
    if unknown:
        raise UsageError(f"unknown argument {unknown[0]!r}", _cure(args, unknown))
    from acode.cli.context import Context

    context = Context(args)
    listen_to_interrupts(True)
    try:
        return int(args.run(context))
    finally:
        context.close()


def build(words: Sequence[str]) -> Parser:
    """A parser for these words; all of it where they ask for help or name no command."""
    parser = Parser(
        prog="acode",
        description="A durable worker pool for coding agents, commands and scripts.",
        epilog=EPILOG,
    )
    add_globals(parser)
    parser.set_defaults(run=_show_help(parser), prog="acode")
    children = add_children(parser, required=False)
    everything = not words or "-h" in words or "--help" in words
    for name in _named(NAMES, words, everything):
        module = import_module(f"acode.cli.{name}")
        if name in NOUNS:
            verbs: dict[str, Command] = {command.name: command for command in module.COMMANDS}
            chosen = [verbs[verb] for verb in _named(verbs, words, everything)]
            add_noun(children, f"acode {name}", NOUNS[name], chosen)
        else:
            add_command(children, f"acode {name}", module.COMMAND)
    return parser


def _named(names: Iterable[str], words: Sequence[str], everything: bool) -> list[str]:
    """Those that are on the command line; all where none is."""
    names = list(names)
    return names if everything else [name for name in names if name in words] or names


def _show_help(parser: Parser) -> "Callable[[Context], int]":
    def show(context: "Context") -> int:
        context.screen.line(parser.format_help().rstrip())
        return 0

    return show


def _split(words: list[str]) -> tuple[list[str], list[str] | None]:
    """What stands before `--`, and the command of `task add` after it."""
    if "--" not in words:
        return words, None
    place = words.index("--")
    head = words[:place]
    return (head, words[place + 1 :]) if {"task", "add"} <= set(head) else (words, None)


def _cure(args: Namespace, unknown: Sequence[str]) -> str:
    prog: str = args.prog
    if prog == "acode task add" and not unknown[0].startswith("-"):
        return "a command goes after --, for example: acode task add -- make test"
    return f"{prog} --help shows how it is written"


def _check_text(words: Iterable[str]) -> None:
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UsageError(f"the argument {word!r} is not valid UTF-8") from None


def _complete() -> None:
    """Answer the shell's question and leave."""
    import argcomplete

    argcomplete.autocomplete(build([]))


def _prepare_streams() -> None:
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "r+"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def _system_failed(error: OSError) -> int:
    what = error.strerror or str(error)
    where = f": {error.filename}" if error.filename else ""
    report("SYSTEM", f"{what}{where}", "check the path, its permissions and the free space")
    return 1


def _bug(error: Exception) -> int:
    if os.environ.get("ACODE_DEBUG"):
        import traceback

        traceback.print_exc()
    report(
        "INTERNAL",
        f"{type(error).__name__}: {error}".partition("\n")[0],
        "this is a mistake in acode; please report it with what ACODE_DEBUG=1 prints",
    )
    return 1
