"""`acode.connect`: the words of a pool for the daemon of a project."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from acode.app import App
from acode.embedded.handle import Fate, TaskHandle, fate_of
from acode.embedded.letters import DeadLetters
from acode.embedded.request import DaemonRequest, Options
from acode.embedded.seen import SeenTask, seen
from acode.engine.client import ask
from acode.ids import new_ids
from acode.model.event import Event, event_of
from acode.model.state import FINISHED
from acode.model.task import Submission
from acode.runner.handlers import Handler
from acode.store.base import Store

ACTOR = "program"
FIRST_REST = 0.02
LONGEST_REST = 0.5
EVENT_REST = 0.1


def connect(project: str | os.PathLike[str] = ".") -> "Client":
    """A client for the project of this directory.

    Tasks are written to the project's queue whether its pool runs or not; a pool that runs begins
    at once. Use it as an async context manager, or call `close`.
    """
    return Client(App.find(project=os.fspath(project), config=None, environ=os.environ))


class Client:
    """Submits to the daemon of a project and waits for what becomes of it."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.dead_letters = DeadLetters(self._opened, self._requeue, ACTOR)
        """Tasks that failed for good: `list()`, `get(id)`, `retry(id)`, `drop(id)`."""

    def _opened(self) -> Store:
        return self._app.store()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the store; the tasks stay."""
        await self._app.close()

    # Tasks.

    async def submit(
        self, handler: Callable[..., Any] | str, *args: Any, **options: Unpack[Options]
    ) -> TaskHandle[Any]:
        """Queue one call of a handler, as `Pool.submit`. The daemon imports `module:name`."""
        (handle,) = await self.submit_many(handler, [args], **options)
        return handle

    async def submit_many(
        self,
        handler: Callable[..., Any] | str,
        arguments: Iterable[Sequence[Any]],
        **options: Unpack[Options],
    ) -> list[TaskHandle[Any]]:
        """Queue a call for each tuple of arguments, all or none, in one write."""
        request = DaemonRequest(handler, options)
        now = self._app.clock.now()
        specs = [request.spec(args) for args in arguments]
        new = list(map(Submission, new_ids(now, len(specs)), specs))
        queue_size = self._app.settings.tasks.queue_size
        store = self._opened()
        ring = self._app.rope.pull
        added = await store.add(new, actor=ACTOR, queue_size=queue_size, ring=ring)
        return [self._handle(one.id, request.handler) for one in added]

    def handle(self, task_id: str) -> TaskHandle[Any]:
        """A handle of any task of the project."""
        return self._handle(task_id, None)

    def _handle(self, task_id: str, handler: Handler | None) -> TaskHandle[Any]:
        return TaskHandle(task_id, lambda: self._fate(task_id), handler)

    async def _fate(self, task_id: str) -> Fate:
        rest = FIRST_REST
        # Other processes move the task, and no bell of theirs reaches this one.
        while (task := await self._opened().get(task_id)).status not in FINISHED:
            await asyncio.sleep(rest)
            rest = min(rest * 1.5, LONGEST_REST)
        return fate_of(task)

    async def cancel(self, task_id: str) -> None:
        """Cancel a waiting task, or ask a running one to end."""
        await self._opened().cancel(task_id, actor=ACTOR)
        self._app.rope.pull()

    async def get(self, task_id: str) -> SeenTask:
        """One task with its history and its attempts."""
        return seen(await self._opened().record(task_id))

    async def _requeue(self, task_id: str, reset_attempts: bool) -> TaskHandle[Any]:
        await self._opened().retry(task_id, actor=ACTOR, reset_attempts=reset_attempts)
        self._app.rope.pull()
        return self.handle(task_id)

    # The pool.

    async def scale(self, workers: int) -> None:
        """Another number of workers; `PoolNotRunning` if there is no daemon."""
        await self._ask("scale", count=workers)

    async def status(self) -> dict[str, Any]:
        """What `acode worker status --json` tells."""
        answer: dict[str, Any] = await self._ask("status")
        return answer

    async def _ask(self, command: str, **words: Any) -> Any:
        return await asyncio.to_thread(
            lambda: ask(self._app.project.control_socket, command, seconds=30.0, **words)
        )

    async def events(self) -> AsyncIterator[Event]:
        """Every move of every task from now on, for as long as somebody iterates."""
        store = self._opened()
        seq = await _newest(store)
        while True:
            moves = await store.moves(seq)
            for move in moves:
                seq = move.seq
                yield event_of(move)
            if not moves:
                await asyncio.sleep(EVENT_REST)


async def _newest(store: Store) -> int:
    """The number of the last move."""
    seq = 0
    while moves := await store.moves(seq):
        seq = moves[-1].seq
    return seq
