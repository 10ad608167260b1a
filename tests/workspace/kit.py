"""Repositories to work on, and a process that works on them as a steward would."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SOMEBODY = 12_345
"""A user without any rights."""
TASK = "01JWORKSPACE000000000000AA"


def git(place: Path, *words: str, **more: Any) -> str:
    """What git says about a place, to a user with settings of their own."""
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(place),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": str(Path(__file__).with_name("gitconfig")),
        **{
            f"GIT_{who}_{what}": "user"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        },
    }
    done = subprocess.run(
        ["git", "-C", str(place), *words], env=environ, capture_output=True, check=True, **more
    )
    return done.stdout.decode(errors="surrogateescape").removesuffix("\n")


def make_repository(place: Path, files: Mapping[str, str | bytes], branch: str = "main") -> Path:
    """A repository with one commit."""
    place.mkdir(parents=True)
    git(place, "init", "-q", "-b", branch)
    write(place, files)
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", "first")
    return place


def write(place: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def picture(place: Path, without: Sequence[str] = (".agent",)) -> dict[str, Any]:
    """Every byte of a directory, with kind, mode and time of what has bytes."""
    found: dict[str, Any] = {}
    for path in sorted(place.rglob("*")):
        name = path.relative_to(place).as_posix()
        if any(name == each or name.startswith(f"{each}/") for each in without):
            continue
        status = path.lstat()
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_file():
            found[name] = (status.st_mode, status.st_mtime_ns, path.read_bytes())
        else:
            found[name] = ("directory", status.st_mode)
    return found


class Steward:
    """A process of its own that opens, uses, collects and closes workspaces when told."""

    def __init__(self, uid: int | None = None, within: Sequence[str] = ()) -> None:
        self._process = subprocess.Popen(
            [*within, sys.executable, "-m", "tests.workspace.steward", str(uid or "")],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, verb: str, **details: Any) -> Any:
        """Have something done; its answer, or what it raised."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([verb, details]) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline() or '{"died": true}')
        if "error" in answer:
            raise Refused(answer["error"], answer["code"], answer["hint"])
        return answer.get("value")

    def end(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(20)


class Refused(Exception):
    """What a steward raised, in words."""

    def __init__(self, message: str, code: str, hint: str) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint
