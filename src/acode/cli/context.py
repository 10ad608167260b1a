"""What a command is given: its arguments, the screen, and the parts it asks for."""

import os
from argparse import Namespace
from collections.abc import Callable, Coroutine
from functools import cached_property
from pwd import getpwuid
from typing import Any, TypeVar

from acode.app import App
from acode.cli.render import Screen, complain
from acode.errors import AcodeError
from acode.model.task import Task
from acode.store.base import Store
from acode.views import status_view

T = TypeVar("T")


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, without an event loop and the cost of importing one."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    raise RuntimeError("a store that a command uses must not wait")


class Context:
    """One command line at work."""

    def __init__(self, args: Namespace) -> None:
        self.args = args
        self.screen = Screen(
            json=getattr(args, "json", False),
            quiet=getattr(args, "quiet", False),
            colour=not (getattr(args, "no_color", False) or os.environ.get("NO_COLOR")),
        )

    @cached_property
    def app(self) -> App:
        """The project's parts, found when the first one is needed."""
        return App.find(
            project=getattr(self.args, "project", None),
            config=getattr(self.args, "config", None),
            environ=os.environ,
        )

    @cached_property
    def actor(self) -> str:
        """Who is asking, for the history."""
        try:
            return f"cli:{getpwuid(os.getuid()).pw_name}"
        except KeyError:  # containers run with ids that have no name
            return f"cli:{os.getuid()}"

    def ring(self) -> None:
        """Tell a running pool that the store holds something new."""
        self.app.rope.pull()

    def resolve(self, store: Store, text: str) -> str:
        """The id that the user means: a whole one or a unique prefix."""
        return drive(store.resolve(text))

    def resolve_all(self, store: Store, texts: list[str]) -> list[str]:
        """The ids that the user means, each once."""
        return list(dict.fromkeys(self.resolve(store, text) for text in texts))

    def each(self, store: Store, ids: list[str], action: Callable[[str], Task]) -> int:
        """Do something with every task; one that refuses does not stop the others."""
        done: dict[str, Task] = {}
        code = 0
        for text in ids:
            try:
                task_id = self.resolve(store, text)
                if task_id not in done:
                    done[task_id] = action(task_id)
            except AcodeError as error:
                complain(error)
                code = error.exit_code
        self.tell(list(done.values()))
        return code

    def tell(self, tasks: list[Task]) -> None:
        """Say where tasks stand after what was done to them."""
        if self.screen.json:
            self.screen.data([status_view(task) for task in tasks])
            return
        for task in tasks:
            self.screen.said(f"{task.id} {_standing(task)}")

    def close(self) -> None:
        """Let go of what was opened."""
        if "app" in self.__dict__:
            drive(self.app.close())


def _standing(task: Task) -> str:
    return f"{task.status}, asked to end" if task.cancel else task.status.value
