"""`acode completion`: what a shell needs to complete commands, options and task ids."""

from argparse import Namespace

from acode.cli.context import Context, drive
from acode.cli.parser import Command, Parser
from acode.errors import AcodeError
from acode.human import clean
from acode.store.base import Sort, TaskQuery
from acode.views import label

NEWEST = 1000
"""So many of the newest tasks are offered."""


def task_ids(prefix: str, args: Namespace) -> dict[str, str]:
    """Ids that begin so, each with the task's title."""
    context = Context(args)
    query = TaskQuery(limit=NEWEST, sort=Sort(reverse=True))
    try:
        tasks = drive(context.app.reader().find(query))
    except (AcodeError, OSError):  # whoever presses Tab does not want to read about it
        return {}
    finally:
        context.close()
    begin = prefix.upper()
    return {
        prefix + task.id[len(prefix) :]: clean(label(task.spec))
        for task in tasks
        if task.id.startswith(begin)
    }


def _arguments(parser: Parser) -> None:
    parser.add_argument("shell", choices=["bash", "zsh", "fish"])


def _completion(context: Context) -> int:
    from argcomplete.shell_integration import shellcode

    context.screen.line(shellcode(["acode"], shell=context.args.shell).rstrip())
    return 0


COMMAND = Command(
    "completion",
    "print what a shell needs to complete commands",
    _completion,
    (
        'eval "$(acode completion bash)"    in ~/.bashrc',
        'eval "$(acode completion zsh)"     in ~/.zshrc, after compinit',
        "acode completion fish | source     in ~/.config/fish/config.fish",
    ),
    _arguments,
)
