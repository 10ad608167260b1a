"""The process beside a test: `python -m tests.workspace.steward [UID]`, one JSON order a line."""

import codecs
import ctypes
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from acode.errors import AcodeError
from acode.runner.identity import is_alive, myself
from acode.workspace.base import CommitText, Order, Workspace
from acode.workspace.copying import copy_index
from acode.workspace.opening import open_workspace
from acode.workspace.results import restore
from acode.workspace.snapshot import take
from acode.workspace.sweep import sweep
from acode.workspace.worktree import Worktree

PR_SET_DUMPABLE = 4

open_ones: dict[str, Workspace] = {}


def do_open(name: str, order: dict[str, Any]) -> dict[str, Any]:
    order.setdefault("owner", msgspec.to_builtins(myself()))
    workspace = open_workspace(msgspec.convert(order, Order))
    open_ones[name] = workspace
    return {
        key: getattr(workspace, key) for key in ("path", "base", "strategy", "writable", "notes")
    }


def do_run(name: str, command: str) -> dict[str, Any]:
    """As a task would: in the workspace, with git at hand."""
    return do_shell(open_ones[name].path, command)


def do_shell(place: str, command: str) -> dict[str, Any]:
    """As the user would, anywhere."""
    done = subprocess.run(
        ["/bin/bash", "-c", command],
        cwd=place,
        env={
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            **{f"GIT_{a}_{b}": "task" for a in ("AUTHOR", "COMMITTER") for b in ("NAME", "EMAIL")},
        },
        capture_output=True,
    )
    return {
        "code": done.returncode,
        "stdout": done.stdout.decode(errors="replace"),
        "stderr": done.stderr.decode(errors="replace"),
    }


def do_look(name: str) -> list[Any]:
    """Everything that a task can see when it begins: names, bytes, modes, marks, and git's view."""
    tree = open_ones[name].path
    git_dir = Path(tree, ".git").read_text().removeprefix("gitdir: ").strip()
    seen: list[Any] = [sorted(os.listdir(git_dir)), Path(git_dir, "HEAD").read_text()]
    seen.append(subprocess.check_output(["git", "-C", tree, "ls-files", "-s", "-v"], text=True))
    for folder, folders, files in os.walk(tree):
        folders.sort()
        for entry in sorted([*folders, *files]):
            path = os.path.join(folder, entry)
            status = os.lstat(path)
            kind = (oct(status.st_mode), status.st_uid, os.listxattr(path, follow_symlinks=False))
            if path == f"{tree}/.git":
                continue
            if not os.path.isdir(path):
                content = os.readlink(path) if os.path.islink(path) else Path(path).read_bytes()
                kind = (
                    *kind,
                    status.st_nlink,
                    content if isinstance(content, str) else content.hex(),
                )
            seen.append([os.path.relpath(path, tree), kind])
    return seen


def do_trees(name: str) -> list[str]:
    """What a workspace holds, once told by its layer and once by looking at everything."""
    workspace = open_ones[name]
    assert isinstance(workspace, Worktree)
    state, found = workspace._state, []
    source = workspace._source
    source.attach(state)
    told = source.changed(state)
    for candidates in (told, None):
        git = state.git()
        copy_index(state.index, git.index)
        found.append(take(git, 1 << 20, candidates).tree)
    return [*found, "told" if told is not None else "looked"]


def do_collect(name: str, patch: str, message: str | None = None) -> Any:
    text = None if message is None else CommitText(message, "Somebody", "somebody@example.org")
    return msgspec.to_builtins(open_ones[name].collect(patch_file=patch, commit=text))


def do_close(name: str, reuse: bool = True) -> None:
    open_ones[name].close(reuse=reuse)


def do_restore(project: str, task: str) -> str:
    return restore(project, task)


WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
STEPS = frozenset(
    f"os.{verb}"
    for verb in ("rename", "mkdir", "remove", "rmdir", "link", "symlink", "posix_spawn", "utime")
)


def die_at(step: int) -> None:
    """Be killed before the so-manieth change to the disk."""
    left = step

    def count(event: str, details: tuple[Any, ...]) -> None:
        nonlocal left
        is_write = event == "open" and isinstance(details[2], int) and details[2] & WRITES
        if event in STEPS or is_write:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def in_child(action: Callable[[Callable[[Any], object]], None]) -> tuple[int, list[Any]]:
    """Do something in a process of its own; how that ended, and what it said on the way."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            action(lambda word: os.write(writing, json.dumps(word).encode() + b"\n"))
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as file:
        said = [json.loads(line) for line in file]
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


def do_live(order: dict[str, Any], patch: str, die: int = 0, end: str = "collect") -> Any:
    """The whole life of a workspace, in a child that may be killed on the way."""

    def life(say: Callable[[Any], object]) -> None:
        if die:
            die_at(die)
        workspace = open_workspace(
            msgspec.convert(order | {"owner": msgspec.to_builtins(myself())}, Order)
        )
        # Not counted: what the task does is none of our steps.
        fd = os.open(f"{workspace.path}/work", os.O_CREAT | os.O_WRONLY)
        os.write(fd, order["task_id"].encode())
        os.close(fd)
        say("worked")
        if end == "collect":
            workspace.collect(patch_file=patch, commit=CommitText("text"))
        workspace.close()

    return in_child(life)


def do_crowd(order: dict[str, Any], patch: str, size: int) -> list[int]:
    """Many lives at once, each in a process of its own; how they ended."""
    children = []
    for number in range(size):
        child = os.fork()
        if child == 0:
            code, _ = 1, None
            try:
                code, _ = do_live(order | {"task_id": f"task{number}"}, f"{patch}-{number}")
            finally:
                os._exit(code)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def do_sweep(project: str, trees: str, die: int = 0, idle: float = 3600.0) -> Any:
    def clean(say: Callable[[Any], object]) -> None:
        if die:
            die_at(die)
        say(msgspec.to_builtins(sweep(project, os.path.dirname(trees), is_alive, idle)))

    return in_child(clean)


def main() -> None:
    if sys.argv[1]:
        uid = int(sys.argv[1])
        os.environ["HOME"] = "/nonexistent"
        codecs.lookup("ascii")  # what is not loaded yet may be out of reach afterwards
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        # As if it had been started by that user: whoever changes users owns nothing of itself.
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
    verbs = {
        name.removeprefix("do_"): verb for name, verb in globals().items() if name[:3] == "do_"
    }
    for line in sys.stdin:
        verb, details = json.loads(line)
        try:
            answer: dict[str, Any] = {"value": verbs[verb](**details)}
        except AcodeError as error:
            answer = {"error": str(error), "code": error.code, "hint": error.hint}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
