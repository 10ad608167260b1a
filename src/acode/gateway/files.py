"""What a task leaves in files: its log, its patch, its artifacts. No path leaves its directory."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Query
from fastapi.responses import FileResponse, Response, StreamingResponse

from acode import peers
from acode.errors import FileUnreadable
from acode.gateway import elsewhere, shapes
from acode.gateway.common import AtDesk, TaskId, says
from acode.gateway.desk import Desk
from acode.gateway.problems import answer, problem
from acode.model.host import Host
from acode.model.state import FINISHED
from acode.observe.logparse import Record
from acode.observe.logread import FIRST_REST, LONGEST_REST, Tail
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
    if follow:
        if desk.followers >= MAX_FOLLOWERS:
            return problem(503, "too many follow logs already", retry_after=5)
        host = await elsewhere.holder(desk, found)
        lines = (
            follow_log(desk, found, attempt)
            if host is None
            else _followed(desk, host, found, attempt)
        )
        return StreamingResponse(lines, media_type="application/x-ndjson")
    hosts = await elsewhere.sources(desk, found)
    path, now = desk.project.task_log(found), desk.clock.now()
    records = elsewhere.printed(path, found, hosts, now)
    return StreamingResponse(_as_list(records, attempt), media_type="application/json")


async def _followed(
    desk: Desk, host: Host, task_id: str, attempt: int | None
) -> AsyncIterator[bytes]:
    """The same from another host."""
    desk.followers += 1
    try:
        records = peers.log_lines(host, task_id, follow=True)
        while (record := await asyncio.to_thread(next, records, None)) is not None:
            if attempt in (None, record.attempt):
                yield line(record) + b"\n"
    finally:
        desk.followers -= 1


def _as_list(records: Iterator[Record], attempt: int | None) -> Iterator[bytes]:
    """A JSON array, a part at a time: a log may be large."""
    yield b"["
    first = True
    for record in records:
        if attempt in (None, record.attempt):
            yield (b"" if first else b",\n") + line(record)
            first = False
    yield b"]"


async def follow_log(
    desk: Desk, task_id: str, attempt: int | None, *, beats: bool = False
) -> AsyncIterator[bytes]:
    """Lines as they come, until the task is finished and everything was read.

    `beats` are empty lines in between, for a reader that wants to know whether we are there.
    """
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
                    yield b"".join(line(each) + b"\n" for each in wanted)
                elif ended and not lines:
                    return
                elif beats:
                    yield b"\n"
                rest = FIRST_REST if lines else min(rest * 1.5, LONGEST_REST)
                if not ended:
                    await asyncio.sleep(rest)
    finally:
        desk.followers -= 1


def _poll(tail: Tail, ended: bool) -> list[Record]:
    lines = list(tail.poll(CHUNK_LINES))
    return lines if lines or not ended else tail.finish()


def line(record: Record) -> bytes:
    """One line of a log as JSON."""
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
    found = await desk.task(task_id)
    if (host := await elsewhere.holder(desk, found)) is not None:
        return await elsewhere.passed_on(host, f"{found}/patch", "text/x-diff")
    return file_answer(desk, found, PATCH, "text/x-diff")


@router.get("/{task_id}/artifacts", responses=says(list[str], 404, 409))
async def artifacts(desk: AtDesk, task_id: TaskId) -> Response:
    """The files that the task left."""
    found = await desk.task(task_id)
    if (host := await elsewhere.holder(desk, found)) is not None:
        return answer(await asyncio.to_thread(peers.artifact_names, host, found))
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
    found = await desk.task(task_id)
    if (host := await elsewhere.holder(desk, found)) is not None:
        what = f"{found}/artifacts/{name}"
        return await elsewhere.passed_on(host, what, "application/octet-stream")
    return file_answer(desk, found, name, "application/octet-stream")


def artifact_names(folder: str) -> list[str]:
    """Every file below a directory; links are not followed."""
    found = []
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if os.path.isfile(path) and not os.path.islink(path):
                found.append(os.path.relpath(path, folder))
    return sorted(found)


def file_answer(desk: Desk, task_id: str, name: str, media_type: str) -> Response:
    """A file that a task left here."""
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
