"""Running the real command, as a user's shell does."""

import os
import subprocess
import sys

ACODE = os.path.join(os.path.dirname(sys.executable), "acode")


def acode(words: str, project: str) -> str:
    """Run `acode` in a project; its output."""
    return _run([ACODE, *words.split()], project)


def bare_python(project: str) -> str:
    """Start the same interpreter and do nothing."""
    return _run([sys.executable, "-c", "pass"], project)


def _run(words: list[str], project: str) -> str:
    done = subprocess.run(
        words, cwd=project, check=True, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    return done.stdout
