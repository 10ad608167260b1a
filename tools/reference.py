"""Writes docs/reference/cli.md from the real parser."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from acode.cli.main import build

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"

HEAD = """\
# Command line

Written by `tools/reference.py` from the parser itself; edit that, not this page.

A project is the nearest directory above that has `.agent/`, else the git top level,
else the current directory. Every command takes a unique prefix wherever it takes an id.
Errors go to stderr as one line with a [code](errors.md), then a hint.

Exit codes: 0 done · 1 the task failed or the request was refused · 2 usage or configuration ·
3 a required tool is missing · 130 interrupted."""


def page() -> str:
    """The whole page."""
    parser = build([])
    parts = [HEAD, "## Everywhere", _table(_globals(parser))]
    for command in commands(parser):
        parts += [f"## {command.prog}", *_section(command)]
    return "\n\n".join(parts) + "\n"


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Every command that does something, in the order of the help."""
    children = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not children:
        yield parser
    for action in children:
        for child in action.choices.values():
            yield from commands(child)


def _section(command: argparse.ArgumentParser) -> Iterator[str]:
    first, _, rest = (command.description or "").partition("\n\n")
    yield _sentence(first)
    if rest:
        yield rest
    if command.usage:
        yield _block([line.strip() for line in command.usage.splitlines()])
    own = [action for action in command._actions if not _is_everywhere(action)]
    if own:
        yield _table(own)
    if command.epilog:
        yield _block([line.strip() for line in command.epilog.splitlines()[1:]])


def _block(lines: list[str]) -> str:
    return "\n".join(["```", *filter(None, lines), "```"])


def _globals(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if _is_everywhere(action)]


def _is_everywhere(action: argparse.Action) -> bool:
    names = {"--help", "--version", "--project", "--config", "--json", "--quiet", "--no-color"}
    return bool(names & set(action.option_strings))


def _table(actions: list[argparse.Action]) -> str:
    rows = [f"| `{_name(action)}` | {_meaning(action)} |" for action in actions]
    return "\n".join(["| argument | meaning |", "| --- | --- |", *rows])


def _meaning(action: argparse.Action) -> str:
    return (action.help or "").replace("|", "\\|")


def _name(action: argparse.Action) -> str:
    value = _value(action).replace("|", "\\|")
    if not action.option_strings:
        return value
    names = ", ".join(action.option_strings)
    return names if action.nargs == 0 else f"{names} {value}"


def _value(action: argparse.Action) -> str:
    if action.metavar is None and action.choices is not None:
        text = "|".join(map(str, action.choices))
    else:
        text = str(action.metavar or action.dest.upper())
    ends = {"*": f"[{text}…]", "+": f"{text}…", "?": f"[{text}]"}
    return ends.get(str(action.nargs), text)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
