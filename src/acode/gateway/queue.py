"""`/api/dlq`, `/api/queue`, `/api/governance`."""

import asyncio
import os

from fastapi import APIRouter
from fastapi.responses import Response

from acode.errors import TaskNotFound
from acode.gateway import shapes
from acode.gateway.common import AtDesk, TaskId, says
from acode.gateway.desk import ACTOR, Desk
from acode.gateway.problems import answer
from acode.observe import governance as file
from acode.views import counts_view, dead_letter_view, status_view

router = APIRouter(prefix="/api")


@router.get("/dlq", tags=["dead letters"], responses=says(list[shapes.DeadLetterShape]))
async def dead_letters(desk: AtDesk) -> Response:
    """Tasks that failed for good, the newest first."""
    return answer([dead_letter_view(letter) for letter in await desk.archive.dead_letters()])


@router.post(
    "/dlq/{task_id}/retry", tags=["dead letters"], responses=says(shapes.TaskStanding, 404, 409)
)
async def retry(desk: AtDesk, task_id: TaskId) -> Response:
    """Queue a dead letter again; finished steps are not repeated."""
    return answer(status_view(await desk.retry(await _letter(desk, task_id))))


@router.delete(
    "/dlq/{task_id}", tags=["dead letters"], responses=says(shapes.TaskStanding, 404, 409)
)
async def drop(desk: AtDesk, task_id: TaskId) -> Response:
    """Give a dead letter up: its task is cancelled for good."""
    letter = await _letter(desk, task_id)
    return answer(status_view(await desk.store.drop(letter, actor=ACTOR)))


async def _letter(desk: Desk, text: str) -> str:
    task_id = await desk.task(text)
    if not await desk.store.dead_letters(task_id):
        raise TaskNotFound(f"task {task_id} is no dead letter", "GET /api/dlq shows them")
    return task_id


@router.get("/queue", tags=["queue"], responses=says(shapes.QueueShape))
async def queue(desk: AtDesk) -> Response:
    """The queue at a glance: the same as `queue status --json`."""
    return answer(counts_view(await desk.glance.counts()))


@router.post("/queue/pause", tags=["queue"], responses=says(shapes.Paused))
async def pause(desk: AtDesk) -> Response:
    """Start nothing new; what runs goes on."""
    return answer({"paused": True, "changed": await desk.store.pause(True, actor=ACTOR)})


@router.post("/queue/resume", tags=["queue"], responses=says(shapes.Paused))
async def resume(desk: AtDesk) -> Response:
    """Let the queue go on."""
    changed = await desk.store.pause(False, actor=ACTOR)
    desk.ring()
    return answer({"paused": False, "changed": changed})


@router.get("/governance", tags=["governance"], responses=says(shapes.Governance))
async def governance(desk: AtDesk) -> Response:
    """What the governance file holds, with the pool as it is now."""
    path = os.path.join(desk.project.root, desk.settings.governance.path)
    document = await asyncio.to_thread(file.read, path)
    return answer({**(document or {}), file.KEY: await desk.daemon.ask("governance")})
