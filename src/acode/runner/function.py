"""Calls one Python function. Its text is given to the project's own Python, wherever that is.

So it uses nothing but the standard library of an old Python, and nothing of acode. Words: the
attempt's token, the project's directory, `module:function`, then the arguments. An argument is
JSON, or else a text; a last one that is an object holds the arguments that have names.
What comes of it is one line on standard output that begins with a mark and the token.
"""

import importlib
import inspect
import json
import os
import sys
import traceback
from typing import Any

MARK = "\x1eacode "
MOST_BYTES = 1 << 20


def tell(token: str, **what: Any) -> None:
    """Tell the worker; whatever the function has printed comes first."""
    line = MARK + token + " " + json.dumps(what, allow_nan=False)
    if len(line) > MOST_BYTES:
        raise ValueError("a value of more than 1 MB of JSON: leave it as an artifact")
    sys.stdout.flush()
    sys.stdout.buffer.write(line.encode() + b"\n")
    sys.stdout.flush()


def read(word: str) -> Any:
    """An argument: a JSON value, or the text itself."""
    try:
        return json.loads(word)
    except ValueError:
        return word


def look_in(workspace: str, project: str) -> None:
    """Modules come from the workspace; from the project where the workspace has no files."""
    is_checkout = os.path.exists(os.path.join(workspace, ".git"))
    for root in (workspace,) if is_checkout else (workspace, project):
        sys.path[1:1] = [root, os.path.join(root, "src")]


def find(path: str) -> Any:
    """The function of this name."""
    module, _, name = path.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(path + " is no function")
    return found


def call(function: Any, words: Any) -> Any:
    """What the function gives back."""
    values = [read(word) for word in words]
    named = values.pop() if values and isinstance(values[-1], dict) else {}
    handler = getattr(function, "__acode_handler__", None)
    if handler is not None:  # of the acode that the project itself has installed
        return handler.alone(values, named)
    value = function(*values, **named)
    if inspect.iscoroutine(value):
        import asyncio

        value = asyncio.run(value)
    return value


def main(token: str, project: str, path: str, *words: str) -> int:
    """The exit code: 0, 1 if the function raised, 78 if there is none, 75 if it may go well."""
    look_in(os.environ.get("ACODE_WORKTREE_PATH", os.getcwd()), project)
    try:
        function = find(path)
    except Exception as error:
        traceback.print_exc()
        tell(token, missing=f"{type(error).__name__}: {error}")
        return 78
    try:
        tell(token, value=call(function, words))
    except Exception as error:
        traceback.print_exc()
        tell(token, raised=f"{type(error).__name__}: {str(error)[:500]}")
        return 75 if any(each.__name__ == "TransientError" for each in type(error).__mro__) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
