"""What is executed for a task: its words as an argument vector."""

from collections.abc import Mapping, Sequence

from acode.model.task import TaskSpec

SHELL = "/bin/sh"
PROMPT = "{prompt}"
# A script with its x bit set runs as it says itself, any other one in the shell.
_RUN_SCRIPT = '[ -x "$0" ] && exec "$0" "$@"; exec /bin/sh "$0" "$@"'


def argv_of(
    spec: TaskSpec, *, agents: Mapping[str, Sequence[str]], project_root: str
) -> tuple[str, ...]:
    """The words to execute. A command without arguments is a line for the shell."""
    if spec.type in agents:
        words = tuple(word.replace(PROMPT, spec.command) for word in agents[spec.type])
        return (*words, *spec.args)
    if spec.type == "script":
        return (SHELL, "-c", _RUN_SCRIPT, f"{project_root}/{spec.command}", *spec.args)
    if not spec.args:
        return (SHELL, "-c", spec.command)
    return (spec.command, *spec.args)
