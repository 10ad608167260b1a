"""The process beside a test: `python -m tests.workspace.steward [UID]`, one JSON order a line."""

import codecs
import ctypes
import json
import os
import subprocess
import sys
from typing import Any

import msgspec

from acode.errors import AcodeError
from acode.runner.identity import myself
from acode.workspace.base import CommitText, Order, Workspace
from acode.workspace.opening import open_workspace
from acode.workspace.results import restore

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
    done = subprocess.run(
        ["/bin/bash", "-c", command],
        cwd=open_ones[name].path,
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


def do_collect(name: str, patch: str, message: str | None = None) -> Any:
    text = None if message is None else CommitText(message, "Somebody", "somebody@example.org")
    return msgspec.to_builtins(open_ones[name].collect(patch_file=patch, commit=text))


def do_close(name: str, reuse: bool = True) -> None:
    open_ones[name].close(reuse=reuse)


def do_restore(project: str, task: str) -> str:
    return restore(project, task)


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
