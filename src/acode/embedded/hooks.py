"""Failure hooks: what a program wants to do about a task that failed for good."""

import inspect

from acode.embedded.eager import Errands
from acode.embedded.handle import Fate, failed_error
from acode.embedded.seen import seen
from acode.model.event import PoolNote, TaskEnded
from acode.observe.events import Events
from acode.runner.handlers import Hook, registry
from acode.store.base import Store


class Hooks:
    """Calls the pool's hook and the handler's; a hook that fails only warns."""

    def __init__(
        self, store: Store, on_failure: Hook | None, events: Events, errands: Errands
    ) -> None:
        self._store = store
        self._on_failure = on_failure
        self._events = events
        self._errands = errands

    def failed(self, event: TaskEnded, cause: BaseException | None) -> None:
        """A task has failed for good."""
        handler = registry.get(event.kind)
        hooks = [handler.on_failure if handler else None, self._on_failure]
        for hook in hooks:
            if hook is not None:
                self._errands.later(self._call(hook, event, cause))

    async def _call(self, hook: Hook, event: TaskEnded, cause: BaseException | None) -> None:
        try:
            task = seen(await self._store.record(event.task_id))
            fate = Fate(event.status, None, event.failure, cause)
            done = hook(task, failed_error(event.task_id, fate))
            if inspect.isawaitable(done):
                await done
        except Exception as error:
            note = (
                f"the failure hook of task {event.task_id} failed: {type(error).__name__}: {error}"
            )
            self._events.emit(PoolNote("warning", note))
