"""What is executed for a task: its words as an argument vector."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from acode.policy.blocked import blocked

if TYPE_CHECKING:
    from acode.policy.blocked.walk import Blocked

SHELL = "/bin/sh"
PROMPT = "{prompt}"
_COMMANDS = frozenset({"shell", "script"})
# A worktree has the script of its own commit; a scratch directory has none, so the project's runs.
# A script without its x bit runs as its first line says, else in the shell.
_RUN_SCRIPT = """\
script=$ACODE_WORKTREE_PATH/$0
[ -e "$script" ] || [ -e "$ACODE_WORKTREE_PATH/.git" ] || script=$1/$0
[ -e "$script" ] || { echo "$0 is not in the workspace: is it committed?" >&2; exit 127; }
shift
[ -x "$script" ] && exec "$script" "$@"
IFS= read -r line < "$script"
case $line in "#!"*) set -f; IFS=' '; exec ${line#??} "$script" "$@" ;; esac
exec /bin/sh "$script" "$@"
"""


class Commanding(Protocol):
    """Whatever says what to execute."""

    @property
    def type(self) -> str:
        """How the command is to be understood."""
        ...

    @property
    def command(self) -> str:
        """A line, a program or a prompt."""
        ...

    @property
    def args(self) -> tuple[str, ...]:
        """What follows it."""
        ...


def argv_of(
    spec: Commanding, *, agents: Mapping[str, Sequence[str]], project_root: str
) -> tuple[str, ...]:
    """The words to execute. A command without arguments is a line for the shell."""
    if spec.type in agents:
        return (*(_prompted(word, spec.command) for word in agents[spec.type]), *spec.args)
    if spec.type == "script":
        return (SHELL, "-c", _RUN_SCRIPT, spec.command, project_root, *spec.args)
    if not spec.args:
        return (SHELL, "-c", spec.command)
    return (spec.command, *spec.args)


def _prompted(word: str, prompt: str) -> str:
    # A prompt is never an option of the agent, whatever it begins with.
    if word == PROMPT and prompt.startswith("-"):
        return f" {prompt}"
    return word.replace(PROMPT, prompt)


class Guard:
    """Refuses commands that nobody means. The default knows no agents and no patterns."""

    def __init__(
        self,
        patterns: Sequence[str] = (),
        agents: Mapping[str, Sequence[str]] | None = None,
        project_root: str = "",
    ) -> None:
        self._patterns = patterns
        self._agents = agents or {}
        self._root = project_root

    def refusal(self, spec: Commanding) -> "Blocked | None":
        """What is wrong with what a task wants to execute."""
        if spec.type not in _COMMANDS and spec.type not in self._agents:
            return None  # a prompt is no command
        argv = argv_of(spec, agents=self._agents, project_root=self._root)
        return blocked(argv, self._patterns)
