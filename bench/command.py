"""Running the real command, as a user's shell does."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

ACODE = os.path.join(os.path.dirname(sys.executable), "acode")

# A user's second command finds the bytecode that the first one wrote.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


@contextmanager
def environment(**more: str) -> Iterator[None]:
    """Commands that are run meanwhile have these variables, too."""
    ENVIRONMENT.update(more)
    try:
        yield
    finally:
        for name in more:
            del ENVIRONMENT[name]


def acode(words: str, project: str) -> str:
    """Run `acode` in a project; its output."""
    return _run([ACODE, *words.split()], project)


def bare_python(project: str) -> str:
    """Start the same interpreter and do nothing."""
    return _run([sys.executable, "-c", "pass"], project)


def _run(words: list[str], project: str) -> str:
    done = subprocess.run(
        words, cwd=project, env=ENVIRONMENT, check=True, text=True, capture_output=True
    )
    return done.stdout
