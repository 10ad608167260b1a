"""`/api/workers/tasks`: adding, listing, showing, cancelling, retrying."""

import asyncio
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from acode.errors import InvalidTask
from acode.gateway import shapes
from acode.gateway.common import AtDesk, TaskId, says
from acode.gateway.desk import ACTOR, Desk
from acode.gateway.problems import answer
from acode.ids import new_id
from acode.model.priority import Priority
from acode.model.state import Status
from acode.spec import read_batch
from acode.spec.draft import submissions
from acode.store.base import Added, Sort, TaskQuery
from acode.views import is_at_work, row_view, status_view, task_view
from acode.why import Case, reasons

router = APIRouter(prefix="/api/workers/tasks", tags=["tasks"])

SORTS = ("created", "priority", "status")


async def submit(desk: Desk, task: dict[str, Any], actor: str = ACTOR) -> Added:
    """Check a task and store it; it is on disk when this returns."""
    try:
        data = msgspec.json.encode(task)
    except UnicodeEncodeError:  # JSON can spell half a character
        raise InvalidTask("the task holds text that is no UTF-8") from None
    drafts = read_batch(
        data,
        "body.json",
        root=desk.project.root,
        types=desk.settings.agents,
        guard=desk.guard,
        ceilings=desk.ceilings,
    )
    # A task that is not there is 404 here; a body has no line to be told.
    drafts = [msgspec.structs.replace(draft, unknown=None) for draft in drafts]
    wanted = await submissions(
        drafts, new_id=lambda: new_id(desk.clock.now()), resolve=desk.glance.resolve
    )
    size = desk.settings.tasks.queue_size
    wanted = await asyncio.to_thread(desk.pinned, wanted)
    ring = desk.rope.pull
    added = await desk.store.add(wanted, actor=actor, queue_size=size, ring=ring)
    return added[0]


@router.post("", responses=says(shapes.TaskAdded, 404, 409, 413, 507, status=201), status_code=201)
async def add(desk: AtDesk, task: shapes.NewTask) -> Response:
    """Queue a task. The id is given out after the task is on disk."""
    given = task.model_dump(exclude_unset=True, exclude_none=True, mode="json")
    added = await submit(desk, _in_our_words(given))
    where = {"location": f"/api/workers/tasks/{added.id}"}
    return answer({"taskId": added.id, "status": added.status}, 201, where)


def _in_our_words(task: dict[str, Any]) -> dict[str, Any]:
    """Forge counts milliseconds and tries, and calls a key an id."""
    if "timeout" in task:
        task["timeoutSeconds"] = task.pop("timeout") / 1000
    if "retryCount" in task:
        task["retryLimit"] = task.pop("retryCount")
    if "id" in task:
        task.setdefault("key", task["id"])
        del task["id"]
    return task


@router.get("", responses=says(list[shapes.TaskRow]))
async def listing(
    desk: AtDesk,
    request: Request,
    status: Annotated[list[Status] | None, Query(description="may be repeated")] = None,
    priority: Priority | None = None,
    workstream: Annotated[shapes.Line | None, Query()] = None,
    search: Annotated[str | None, Query(max_length=200, pattern=r"^[^\x00]*$")] = None,
    sort: Annotated[str, Query(pattern="^(created|priority|status)$")] = "created",
    reverse: bool = False,
    limit: Annotated[shapes.Limit, Query()] = 50,
    offset: Annotated[shapes.Offset, Query()] = 0,
) -> Response:
    """Tasks, in the order in which they came unless `sort` says otherwise."""
    query = TaskQuery(
        statuses=tuple(status or ()),
        priority=priority,
        workstream_id=workstream,
        text=search,
        sort=Sort(by=sort, reverse=reverse),
        limit=limit,
        offset=offset,
    )
    desk.learn(request.scope["query_string"], query)
    return await rows(desk, query)


async def rows(desk: Desk, query: TaskQuery) -> Response:
    """The tasks that a query finds."""
    defaults = desk.settings.tasks
    return answer([row_view(task, defaults) for task in await desk.find(query)])


@router.get("/{task_id}", responses=says(shapes.TaskShape, 404, 409))
async def show(desk: AtDesk, task_id: TaskId) -> Response:
    """One task: the same as `task show --json`."""
    record = await desk.store.record(await desk.task(task_id))
    return answer(task_view(record, desk.settings.tasks))


@router.delete("/{task_id}", responses=says(shapes.TaskStanding, 404, 409))
async def cancel(desk: AtDesk, task_id: TaskId, force: bool = False) -> Response:
    """Cancel a task. One that runs is asked to end; `force` kills it."""
    return answer(status_view(await desk.cancel(await desk.task(task_id), force=force)))


@router.post("/{task_id}/retry", responses=says(shapes.TaskStanding, 404, 409))
async def retry(desk: AtDesk, task_id: TaskId, reset: bool = False) -> Response:
    """Queue a failed or cancelled task again; `reset` forgets its attempts."""
    return answer(status_view(await desk.retry(await desk.task(task_id), reset=reset)))


@router.get("/{task_id}/why", responses=says(shapes.Reasons, 404, 409))
async def why(desk: AtDesk, task_id: TaskId) -> Response:
    """Why a task runs or does not, in plain sentences."""
    record = await desk.store.record(await desk.task(task_id))
    return answer({**status_view(record.task), "reasons": await explained(desk, record)})


async def explained(desk: Desk, record: Any) -> list[str]:
    """The reasons of a task."""
    pool = await desk.all_pools()
    return await reasons(
        Case(record, desk.glance, desk.clock.now(), pool if is_at_work(pool) else None)
    )
