"""The way to a worker whose tasks run in a container: an order waits until there is one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

from msgspec.structs import replace

from acode.clock import Clock
from acode.engine.berths import Berths
from acode.engine.port import Port
from acode.engine.roster import Slot
from acode.errors import AcodeError, DockerUnavailable
from acode.model.ending import Cancelled, Ending, NotStarted, Released
from acode.model.event import PoolNote
from acode.model.failure import Category, Failure, FailureCode
from acode.observe.events import Events
from acode.policy.secrets import looks_secret
from acode.runner.container.api import EngineError
from acode.runner.container.images import ImageUnavailable
from acode.runner.container.life import NoShell
from acode.worker.messages import Action, Assignment, Control, Ended, Why
from acode.worker.wire import FrameType

OnEnded = Callable[[Slot, Ended], Awaitable[None]]


class Boarding:
    """A port before a port: what needs no container passes through."""

    def __init__(
        self,
        inner: Port,
        slot: Slot,
        berths: Berths,
        clock: Clock,
        events: Events,
        on_ended: OnEnded,
        *,
        may_do_without: bool,
    ) -> None:
        self._inner = inner
        self._slot = slot
        self._berths = berths
        self._clock = clock
        self._events = events
        self._on_ended = on_ended
        self._may_do_without = may_do_without
        self._waiting: tuple[str, asyncio.Task[None]] | None = None
        """The attempt that waits for its container."""
        self._aborted: Ending | None = None
        self._is_closed = False

    def send(self, kind: FrameType, id_: str, payload: object) -> None:
        """Pass it on, now or when there is a container."""
        if kind is FrameType.TASK and cast("Assignment", payload).wanted is not None:
            work = self._board(id_, cast("Assignment", payload))
            self._aborted = None
            self._waiting = id_, asyncio.get_running_loop().create_task(work)
        elif not self._intercept(kind, payload):
            self._inner.send(kind, id_, payload)

    def _intercept(self, kind: FrameType, payload: object) -> bool:
        """Whether this was an order about what its worker has not heard of yet."""
        if self._waiting is None or not isinstance(payload, Control):
            return False
        token, work = self._waiting
        if kind is not FrameType.CONTROL or payload.action is not Action.ABORT:
            return False
        if payload.token not in (None, token):
            return False
        cancelled = payload.why is Why.CANCEL
        self._aborted = Cancelled() if cancelled else Released("interrupted")
        work.cancel()
        return True

    async def _board(self, token: str, task: Assignment) -> None:
        failure, setback = _refusal(task), None
        ending: Ending | None = NotStarted(failure) if failure else None
        try:
            if ending is None and task.wanted is not None:
                task = replace(task, seat=await self._berths.have(self._slot, task.wanted))
        except asyncio.CancelledError:
            ending = self._aborted or Released("interrupted")
        except DockerUnavailable as error:
            ending, setback = self._without(task, error)
        except (AcodeError, OSError) as error:
            ending = NotStarted(_unusable(error))
        self._waiting = None
        if self._is_closed:
            return  # its worker is gone, and whoever noticed has settled this
        if ending is None:
            self._inner.send(FrameType.TASK, token, replace(task, wanted=None))
            return
        ended = Ended(
            task_id=task.task_id,
            token=token,
            number=task.number,
            ending=ending,
            ended_at=self._clock.now(),
            setback=setback,
        )
        await self._on_ended(self._slot, ended)

    def _without(
        self, task: Assignment, error: DockerUnavailable
    ) -> tuple[Ending | None, str | None]:
        """As a process where that is allowed; else it waits for the engine to come back."""
        status = error.status if isinstance(error, EngineError) else 0
        if isinstance(error, ImageUnavailable | NoShell) or 400 <= status < 500:
            return NotStarted(_unusable(error)), None
        if self._may_do_without and status == 0:
            note = f"{error.code}: {error}; task {task.task_id} runs as a process"
            self._events.emit(PoolNote("warning", note))
            return None, None
        return Released("no container could be had"), f"{error.code}: {error}"

    def close(self) -> None:
        """Tell it nothing more."""
        self._is_closed = True
        if self._waiting is not None:
            self._waiting[1].cancel()
        self._inner.close()


def _refusal(task: Assignment) -> Failure | None:
    """Secrets have no place in a container's environment, but for those that agents are given."""
    found = [name for name in task.env if looks_secret(name) and name not in task.passed]
    if not found:
        return None
    return Failure(
        FailureCode.INVALID_TASK,
        Category.PERMANENT,
        f"{', '.join(found)} would be a secret in the environment of a container",
        "name a file in workers.docker.secrets; tasks find it under /run/secrets",
        final=True,
    )


def _unusable(error: Exception) -> Failure:
    hint = error.hint if isinstance(error, AcodeError) else "acode doctor tells more"
    return Failure(
        FailureCode.TOOL_NOT_FOUND, Category.PERMANENT, f"no container: {error}", hint, final=True
    )
