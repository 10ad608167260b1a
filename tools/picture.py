"""Draws docs/images/tour.svg from the real output of real commands: `make picture`."""

import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from demo import ACODE, BATCH
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "tour.svg"
WIDTH = 92
TERMINAL = {"TERM": "xterm-256color", "COLUMNS": str(WIDTH), "LINES": "40"}


def on_a_terminal(project: Path, *args: str) -> str:
    """What a command prints for a person."""
    ours, theirs = pty.openpty()
    command = subprocess.Popen(
        [ACODE, *args], cwd=project, env=os.environ | TERMINAL, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    printed = _everything(ours)
    if command.wait():
        sys.exit(f"acode {shlex.join(args)} failed:\n{printed}")
    return printed


def _everything(descriptor: int) -> str:
    """Read until the other side is closed, which Linux reports as an error."""
    chunks = []
    with os.fdopen(descriptor, "rb", buffering=0) as stream:
        try:
            while chunk := stream.read(65536):
                chunks.append(chunk)
        except OSError:
            pass
    return b"".join(chunks).decode().replace("\r\n", "\n")


def draw(console: Console) -> str:
    """The recording as a picture that loads nothing from elsewhere."""
    frame = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    frame = frame.replace("Fira Code", "ui-monospace")
    return console.export_svg(title="acode", code_format=frame, unique_id="acode")


class Tour:
    """Runs commands in a project and records what they print."""

    def __init__(self, project: Path, console: Console) -> None:
        self.project = project
        self.console = console

    def step(self, *args: str) -> list[str]:
        """Run one command for the picture; the words that it printed."""
        printed = on_a_terminal(self.project, *args)
        self.console.print(Text(f"$ acode {shlex.join(args)}", style="bold green"))
        self.console.print(Text.from_ansi(printed))
        return printed.split()


def main() -> None:
    """Queue a few tasks, look at them, and draw what was seen."""
    with (
        tempfile.TemporaryDirectory(prefix="acode-") as directory,
        Path(os.devnull).open("w") as nowhere,
    ):
        project = Path(directory)
        (project / "nightly.yml").write_text(BATCH, encoding="utf-8")
        console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True)
        tour = Tour(project, console)
        ids = tour.step("task", "add", "nightly.yml")
        tour.step("task", "list")
        tour.step("task", "why", ids[1])
        tour.step("queue", "status")
        PICTURE.write_text(draw(console), encoding="utf-8")


if __name__ == "__main__":
    main()
