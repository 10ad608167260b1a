"""Why a task runs or does not, in plain sentences."""

from collections.abc import AsyncIterator, Iterator
from itertools import takewhile
from typing import NamedTuple, assert_never

from acode.clock import from_iso, iso
from acode.human import ago, number
from acode.ids import host_name
from acode.model.state import Status
from acode.model.task import CancelWish, Record, Task
from acode.store.base import Sort, Store, TaskQuery
from acode.views import View

NOBODY = "no worker pool is running"
LOOK_AHEAD = 1000


class Case(NamedTuple):
    """One question and where the answer is found."""

    record: Record
    store: Store
    now: int
    pool: View | None
    """What the daemon says of its workers; None if there is none, or none that answers."""

    @property
    def task(self) -> Task:
        """The task in question."""
        return self.record.task


async def reasons(case: Case) -> list[str]:
    """Sentences, the most important first."""
    return [reason async for reason in explain(case)]


def explain(case: Case) -> AsyncIterator[str]:
    """Sentences, the most important first."""
    match case.task.status:
        case Status.PENDING:
            return _pending(case)
        case Status.BLOCKED:
            return _blocked(case)
        case Status.RUNNING:
            return _running(case)
        case Status.COMPLETED:
            return _completed(case)
        case Status.FAILED:
            return _failed(case)
        case Status.CANCELLED:
            return _cancelled(case)
        case unknown:
            assert_never(unknown)


async def _pending(case: Case) -> AsyncIterator[str]:
    task = case.task
    if task.error is not None and task.attempt_count:
        yield f"attempt {task.attempt_count} failed ({task.error.message}) and it is tried again"
    if (await case.store.counts()).paused:
        yield "the queue is paused: acode queue resume lets it go on"
    if task.ready_at > case.now:
        yield f"it waits until {iso(task.ready_at)} ({ago(task.ready_at, case.now)})"
    else:
        yield f"it is ready since {iso(task.ready_at)} ({ago(task.ready_at, case.now)})"
        yield await _place(case)
    for reason in (*_paused(case), *_held(case), *_circuit(case)):
        yield reason
    yield _workers(case.pool)


def _paused(case: Case) -> Iterator[str]:
    kind = case.task.spec.kind
    for pause in case.pool["pauses"] if case.pool else ():
        if pause["type"] == kind:
            when = f"until {pause['until']} ({ago(from_iso(pause['until']), case.now)})"
            yield f"{kind} tasks are paused {when}: {pause['reason']}"
            yield "acode queue resume tries at once"


def _held(case: Case) -> Iterator[str]:
    if case.pool and case.pool["backpressure"]:
        yield f"the pool begins no further task: {case.pool['backpressure']}"


def _circuit(case: Case) -> Iterator[str]:
    spec = case.task.spec
    for circuit in case.pool["circuits"] if case.pool else ():
        if (circuit["type"], circuit["workstreamId"]) == (spec.kind, spec.workstream_id):
            where = f" in workstream {spec.workstream_id}" if spec.workstream_id else ""
            yield f"too many {spec.kind} tasks{where} failed in a row: the circuit is " + (
                f"{circuit['status']}, and few or none are started until one succeeds"
            )


def _workers(pool: View | None) -> str:
    if pool is None:
        return NOBODY
    if pool["idleCount"]:
        return f"{pool['idleCount']} of {number(pool['activeCount'], 'worker')} wait for work"
    return f"none of {number(pool['activeCount'], 'worker')} is free"


async def _place(case: Case) -> str:
    query = TaskQuery(statuses=(Status.PENDING,), limit=LOOK_AHEAD, sort=Sort(by="priority"))
    before = list(takewhile(lambda task: task.id != case.task.id, await case.store.find(query)))
    ready = sum(task.ready_at <= case.now for task in before)
    if len(before) == LOOK_AHEAD:
        return f"more than {ready:,} ready tasks are before it"
    if ready == 0:
        return "it is the next one"
    return f"about {number(ready, 'ready task')} of the same or a higher priority come first"


async def _blocked(case: Case) -> AsyncIterator[str]:
    for needed in case.task.spec.dependencies:
        other = await case.store.get(needed)
        if other.status is Status.COMPLETED:
            continue
        yield f"it waits for {needed}, which is {other.status}"
        if other.status in (Status.FAILED, Status.CANCELLED):
            yield f"it goes on when that one completes: acode task retry {needed}"


async def _running(case: Case) -> AsyncIterator[str]:
    task = case.task
    if case.pool is None:
        yield f"{NOBODY}: it goes on by itself, or the next one finds out what became of it"
    several = case.pool is not None and len(case.pool["hosts"]) > 1
    where = f" on {host_name(task.host_id)}" if several and task.host_id else ""
    yield (
        f"worker-{task.worker_id}{where} runs attempt {task.last_attempt} "
        f"since {iso(task.started_at)} ({ago(task.started_at, case.now)})"
    )
    if task.cancel is CancelWish.GENTLY:
        yield "its end was asked for: acode task cancel --force does not wait for it"
    elif task.cancel is CancelWish.FORCE:
        yield "it is to be killed"


async def _completed(case: Case) -> AsyncIterator[str]:
    task = case.task
    yield f"it completed at {iso(task.completed_at)} ({ago(task.completed_at, case.now)})"


async def _failed(case: Case) -> AsyncIterator[str]:
    task = case.task
    tries = number(task.attempt_count, "attempt")
    if task.error is not None:
        yield f"it failed after {tries}: {task.error.code}: {task.error.message}"
        if task.error.hint:
            yield f"hint: {task.error.hint}"
    yield f"acode task retry {task.id} tries it again"


async def _cancelled(case: Case) -> AsyncIterator[str]:
    last = case.record.history[-1]
    yield f"cancelled by {last.actor} at {iso(last.at)} ({ago(last.at, case.now)}): {last.reason}"
    yield f"acode task retry {case.task.id} queues it again"
