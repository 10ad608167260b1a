"""The dead letters of a pool, by task id."""

from collections.abc import Awaitable, Callable
from typing import Any

from acode.embedded.handle import TaskHandle
from acode.errors import TaskNotFound
from acode.model.task import DeadLetter
from acode.store.base import Store

Requeue = Callable[[str, bool], Awaitable[TaskHandle[Any]]]


class DeadLetters:
    """Tasks that failed for good; each keeps its checkpoint until it is retried or dropped."""

    def __init__(self, store: Callable[[], Store], requeue: Requeue, actor: str) -> None:
        self._store = store
        self._requeue = requeue
        self._actor = actor

    async def list(self) -> list[DeadLetter]:
        """All of them, the newest first."""
        return await self._store().dead_letters()

    async def get(self, task_id: str) -> DeadLetter:
        """The letter of one task."""
        found = await self._store().dead_letters(task_id)
        if not found:
            raise TaskNotFound(f"no dead letter is of task {task_id}")
        return found[0]

    async def retry(self, task_id: str, *, reset_attempts: bool = False) -> TaskHandle[Any]:
        """Queue the task again: it goes on after its finished steps, and the letter is gone.

        `reset_attempts` gives it all its retries anew.
        """
        return await self._requeue(task_id, reset_attempts)

    async def drop(self, task_id: str) -> None:
        """Give the task up for good."""
        await self._store().drop(task_id, actor=self._actor)
