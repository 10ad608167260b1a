"""`/api/peers`: what tasks left here, for the hosts that share the queue. Nothing else."""

import asyncio
from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import Response, StreamingResponse

from acode.gateway.common import AtDesk, TaskId
from acode.gateway.files import MAX_FOLLOWERS, PATCH, artifact_names, file_answer, follow_log, line
from acode.gateway.problems import answer, problem
from acode.observe.logread import read

router = APIRouter(prefix="/api/peers/tasks", include_in_schema=False)

LINES = "application/x-ndjson"


@router.get("/{task_id}/logs")
async def logs(desk: AtDesk, task_id: TaskId, follow: bool = False) -> Response:
    """What a task printed here, one line of JSON for each."""
    if follow and desk.followers >= MAX_FOLLOWERS:
        return problem(503, "too many follow logs already", retry_after=5)
    if follow:
        return StreamingResponse(follow_log(desk, task_id, None, beats=True), media_type=LINES)
    return StreamingResponse(_lines(desk.project.task_log(task_id)), media_type=LINES)


def _lines(path: str) -> Iterator[bytes]:
    for record in read(path):
        yield line(record) + b"\n"


@router.get("/{task_id}/patch")
async def patch(desk: AtDesk, task_id: TaskId) -> Response:
    """What the task changed here."""
    return file_answer(desk, task_id, PATCH, "text/x-diff")


@router.get("/{task_id}/artifacts")
async def artifacts(desk: AtDesk, task_id: TaskId) -> Response:
    """The files that the task left here."""
    return answer(await asyncio.to_thread(artifact_names, desk.project.artifacts_dir(task_id)))


@router.get("/{task_id}/artifacts/{name:path}")
async def artifact(
    desk: AtDesk, task_id: TaskId, name: Annotated[str, Path(pattern=r"^[^\x00]{1,4096}$")]
) -> Response:
    """One of them."""
    return file_answer(desk, task_id, name, "application/octet-stream")
