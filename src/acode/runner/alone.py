"""A handler in a process of its own: its steps are kept in the attempt's checkpoint file."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from acode.runner.context import Call, Context, SyncContext
from acode.runner.handlers import Handler
from acode.runner.values import plain


class File:
    """The checkpoint file that is handed from attempt to attempt; without one nothing is kept."""

    def __init__(self, path: str | None) -> None:
        self._path = path

    def load(self) -> dict[str, Any]:
        """The steps of the attempts before; a file that something else has written is none."""
        if self._path is None:
            return {}
        with suppress(OSError, ValueError):
            with open(self._path, encoding="utf-8") as file:
                steps = json.load(file)
            return steps if isinstance(steps, dict) else {}
        return {}

    def save(self, step: str, value: Any) -> None:
        """Keep one more, so that a crash in the middle leaves the old file or the new one."""
        if self._path is None:
            return
        text = json.dumps({**self.load(), step: value})
        with open(f"{self._path}.new", "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{self._path}.new", self._path)


class _Keeper:
    """For a plain function."""

    def __init__(self, file: File) -> None:
        self._file = file

    def save_step(self, _call: Call, step: str, value: Any) -> None:
        """Keep the value."""
        self._file.save(step, value)

    def warn(self, _call: Call, message: str) -> None:
        """The task's log is where standard error goes."""
        sys.stderr.write(f"warning: {message}\n")


class _AsyncKeeper(_Keeper):
    """For a coroutine function."""

    async def save_step(  # type: ignore[override]  # the same word, awaited
        self, _call: Call, step: str, value: Any
    ) -> None:
        """Keep the value."""
        self._file.save(step, value)


def call(handler: Handler, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """The JSON value that the handler returns."""
    file = File(os.environ.get("ACODE_CHECKPOINT"))
    about = Call(
        token=os.environ.get("ACODE_ATTEMPT_TOKEN", ""),
        task_id=os.environ.get("ACODE_TASK_ID", ""),
        number=int(os.environ.get("ACODE_ATTEMPT", "1")),
        name=handler.name,
        arguments=tuple(arguments),
        steps=file.load(),
    )
    values = handler.shaped(arguments)
    if handler.is_async:
        context = Context(about, _AsyncKeeper(file))
        value = asyncio.run(handler.function(context, *values, **named))
    else:
        plainly = SyncContext(about, _Keeper(file), lambda: False)
        value = handler.function(plainly, *values, **named)
    return plain(value, f"the result of {handler.name}")
