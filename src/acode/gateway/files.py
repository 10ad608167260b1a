"""What a task leaves in files: its log, its patch, its artifacts. No path leaves its directory."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Query
from fastapi.responses import FileResponse, Response, StreamingResponse

from acode.errors import FileUnreadable
from acode.gateway import shapes
from acode.gateway.common import AtDesk, TaskId, says
from acode.gateway.desk import Desk
from acode.gateway.problems import answer, problem
from acode.model.state import FINISHED
from acode.observe.logparse import Record
from acode.observe.logread import FIRST_REST, LONGEST_REST, Tail, read
from acode.views import log_view

router = APIRouter(prefix="/api/workers/tasks", tags=["files"])

CHUNK_LINES = 500
MAX_FOLLOWERS = 64
PATCH = "changes.patch"


_LINES = says(list[shapes.LogLine], 404, 409)
_LINES[200]["content"] = {"application/x-ndjson": {"schema": {"type": "string"}}}


@router.get("/{task_id}/logs", responses=_LINES)
async def logs(
    desk: AtDesk,
    task_id: TaskId,
    follow: bool = False,
    attempt: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
) -> Response:
    """What a task printed. With `follow`, all that comes as well, until the task is finished."""
    found = await desk.task(task_id)
    await desk.glance.get(found)
    path = desk.project.task_log(found)
    if follow:
        if desk.followers >= MAX_FOLLOWERS:
            return problem(503, "too many follow logs already", retry_after=5)
        lines = follow_log(desk, found, attempt)
        return StreamingResponse(lines, media_type="application/x-ndjson")
    return StreamingResponse(_as_list(path, attempt), media_type="application/json")


def _as_list(path: str, attempt: int | None) -> Iterator[bytes]:
    """A JSON array, a part at a time: a log may be large."""
    yield b"["
    first = True
    for record in read(path):
        if attempt in (None, record.attempt):
            yield (b"" if first else b",\n") + _line(record)
            first = False
    yield b"]"


async def follow_log(desk: Desk, task_id: str, attempt: int | None) -> AsyncIterator[bytes]:
    """Lines as they come, until the task is finished and everything was read."""
    desk.followers += 1
    rest = FIRST_REST
    try:
        with closing(Tail(desk.project.task_log(task_id))) as tail:
            while True:
                # Asked before reading: what was printed before the end must be read, too.
                ended = (await desk.glance.get(task_id)).status in FINISHED
                lines = await asyncio.to_thread(_poll, tail, ended)
                wanted = [each for each in lines if attempt in (None, each.attempt)]
                if wanted:
                    yield b"".join(_line(each) + b"\n" for each in wanted)
                elif ended and not lines:
                    return
                rest = FIRST_REST if lines else min(rest * 1.5, LONGEST_REST)
                if not ended:
                    await asyncio.sleep(rest)
    finally:
        desk.followers -= 1


def _poll(tail: Tail, ended: bool) -> list[Record]:
    lines = list(tail.poll(CHUNK_LINES))
    return lines if lines or not ended else tail.finish()


def _line(record: Record) -> bytes:
    return msgspec.json.encode(log_view(record))


@router.get(
    "/{task_id}/patch",
    responses={
        **says(shapes.TaskStanding, 404, 409),
        200: {"description": "a patch", "content": {"text/x-diff": {"schema": {"type": "string"}}}},
    },
)
async def patch(desk: AtDesk, task_id: TaskId) -> Response:
    """What the task changed."""
    return _file(desk, await desk.task(task_id), PATCH, "text/x-diff")


@router.get("/{task_id}/artifacts", responses=says(list[str], 404, 409))
async def artifacts(desk: AtDesk, task_id: TaskId) -> Response:
    """The files that the task left."""
    found = await desk.task(task_id)
    return answer(await asyncio.to_thread(artifact_names, desk.project.artifacts_dir(found)))


@router.get(
    "/{task_id}/artifacts/{name:path}",
    responses={
        **says(shapes.TaskStanding, 404, 409),
        200: {
            "description": "the file",
            "content": {
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
            },
        },
    },
)
async def artifact(
    desk: AtDesk,
    task_id: TaskId,
    name: Annotated[str, Path(pattern=r"^[^\x00]{1,4096}$")],
) -> Response:
    """One file that the task left."""
    return _file(desk, await desk.task(task_id), name, "application/octet-stream")


def artifact_names(folder: str) -> list[str]:
    """Every file below a directory; links are not followed."""
    found = []
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if os.path.isfile(path) and not os.path.islink(path):
                found.append(os.path.relpath(path, folder))
    return sorted(found)


def _file(desk: Desk, task_id: str, name: str, media_type: str) -> Response:
    folder = os.path.realpath(desk.project.artifacts_dir(task_id))
    path = os.path.realpath(os.path.join(folder, name))
    # A task can leave a link to anywhere, and a caller can ask for anything.
    if os.path.commonpath((folder, path)) != folder or not os.path.isfile(path):
        return problem(404, f"task {task_id} has left no such file", hint="see …/artifacts")
    try:
        os.close(os.open(path, os.O_RDONLY))
    except OSError as error:
        raise FileUnreadable(f"{name}: {error.strerror}") from error
    return FileResponse(
        path,
        media_type=media_type,
        filename=os.path.basename(path),
        content_disposition_type="attachment",
    )
