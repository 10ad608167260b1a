"""A command for a container, and the lines for any POSIX shell that the supervisor runs it by."""

import re
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import NamedTuple

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_OWN = frozenset({"PPID", "IFS", "OPTIND", "PS1", "PS2", "PS4", "dir", "session", "lead"})
"""Variables that a shell, or the supervisor, keeps to itself."""


class Command(NamedTuple):
    """What is to be run, with what, and where."""

    argv: Sequence[str]
    env: Mapping[str, str]
    directory: str


def order_of(command: Command) -> str:
    """Go there, see whether it can be started, and become it."""
    argv, env, directory = command
    words = " ".join(quote(word) for word in argv)
    program = quote(argv[0])
    return "\n".join(
        (
            f'cd {quote(directory)} 2>/dev/null || {{ echo "nowhere $session" >&4; exit 127; }}',
            *(f"export {name}={quote(value)}" for name, value in env.items() if _can_have(name)),
            f'command -v {program} >/dev/null 2>&1 || {{ echo "absent $session" >&4; exit 127; }}',
            f"exec $lead {words} 4>&-",
            "",
        )
    )


def _can_have(name: str) -> bool:
    return _NAME.match(name) is not None and name not in _OWN
