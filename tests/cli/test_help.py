"""`--help`, `--version` and shell completion."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from acode import __version__
from tests.cli.conftest import ACODE, Project

VERBS = {
    "worker": ["start", "status", "list", "scale", "stop", "logs", "attach"],
    "task": ["add", "list", "show", "wait", "logs", "diff", "restore", "cancel", "retry", "why"],
    "dlq": ["list", "show", "retry", "drop"],
    "queue": ["status", "pause", "resume", "check", "recover", "backup"],
}
COMMANDS = [
    "init",
    "run",
    "doctor",
    "completion",
    *(f"{noun} {verb}" for noun, verbs in VERBS.items() for verb in verbs),
]


def test_the_version_is_printed(project: Project) -> None:
    assert project.run("--version") == (0, f"acode {__version__}\n", "")


def test_the_help_lists_every_noun_with_examples(project: Project) -> None:
    for words in ([], ["--help"], ["-h"], ["--help", "task"]):
        done = project.run(*words)
        assert (done.code, done.err) == (0, "")
        assert all(noun in done.out for noun in ("init", "task", "dlq", "queue", "completion"))
        assert "acode task add -- make test" in done.out
        assert "exit codes" in done.out


@pytest.mark.parametrize("noun", VERBS)
def test_the_help_of_a_noun_lists_every_verb(project: Project, noun: str) -> None:
    shown = project.run(noun, "--help").out
    assert [verb for verb in VERBS[noun] if f"    {verb} " not in shown] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_examples_and_the_global_options(
    project: Project, command: str
) -> None:
    done = project.run(*command.split(), "--help")
    assert done.code == 0
    assert f"usage: acode {command}" in done.out
    assert "examples:\n  " in done.out
    assert "--project DIR" in done.out
    assert max(map(len, done.out.splitlines())) <= 80


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(project: Project, shell: str) -> None:
    done = project.run("completion", shell)
    assert done.code == 0
    assert "_ARGCOMPLETE" in done.out
    if shutil.which(shell):
        assert subprocess.run([shell, "-n"], input=done.out, text=True).returncode == 0


def completions(project: Project, line: str) -> list[str]:
    """What bash offers after this line, asked through the real script."""
    script = f"""
        eval "$({ACODE} completion bash)"
        COMP_LINE={line!r} COMP_POINT={len(line)} COMP_TYPE=9 COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'
        _python_argcomplete acode
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    path = os.pathsep.join([str(Path(ACODE).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=project.root,
        env={**project.env, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Traceback" not in done.stderr
    return [word.strip() for word in done.stdout.splitlines() if word.strip()]


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes_commands_options_and_values(project: Project) -> None:
    assert completions(project, "acode qu") == ["queue"]
    assert set(completions(project, "acode task ")) >= {"add", "list", "show", "why"}
    assert completions(project, "acode task add --prio") == ["--priority"]
    assert completions(project, "acode task add --priority b") == ["background"]


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes_task_ids(project: Project) -> None:
    task = project.add("--", "true")
    assert completions(project, f"acode task show {task[:3]}") == [task]
    assert completions(project, f"acode task cancel --force {task[:9].lower()}") != []


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_completing_creates_nothing_and_complains_about_nothing(project: Project) -> None:
    assert completions(project, "acode task show 0") == []
    assert not project.database.exists()
    project.database.write_bytes(b"rubbish" * 1000)
    assert completions(project, "acode task show 0") == []
