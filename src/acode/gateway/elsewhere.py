"""What tasks left on other hosts, passed on by this one."""

import asyncio
from collections.abc import Iterator, Sequence

from fastapi.responses import Response, StreamingResponse

from acode import peers
from acode.errors import AcodeError
from acode.gateway.desk import Desk
from acode.hosts import known_host_id
from acode.model.host import Host
from acode.observe.logparse import Record as Line
from acode.observe.logread import read

FIRST = 1
"""One part is asked for before the answer begins, so that a refusal can still be one."""


async def holder(desk: Desk, task_id: str) -> Host | None:
    """The host that has what the last attempt of a task left; None if it is this one."""
    if not desk.settings.store.is_shared:
        return None
    record = await desk.store.record(task_id)
    place = peers.last_place(record, known_host_id(desk.project))
    return None if place is None else peers.find(await desk.store.hosts(), place)


async def passed_on(host: Host, what: str, media_type: str) -> Response:
    """A file of another host."""
    parts = peers.chunks(host, what)
    first = await asyncio.to_thread(next, parts, b"")
    return StreamingResponse(_with(first, parts), media_type=media_type)


def _with(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


async def sources(desk: Desk, task_id: str) -> Sequence[Host | None]:
    """The hosts that a task printed something on, in the order of its attempts."""
    if not desk.settings.store.is_shared:
        return [None]
    record, hosts = await desk.store.record(task_id), await desk.store.hosts()
    found = peers.places(record, known_host_id(desk.project))
    return [None if place is None else peers.find(hosts, place) for place in found]


def printed(path: str, task_id: str, hosts: Sequence[Host | None]) -> Iterator[Line]:
    """Everything that a task printed, wherever that was."""
    for host in hosts:
        yield from read(path) if host is None else peers.log_lines(host, task_id)


async def lines_elsewhere(desk: Desk, task_id: str) -> list[Line] | None:
    """What the last attempt printed, or why that cannot be read; None if it is here."""
    try:
        host = await holder(desk, task_id)
        if host is None:
            return None
        return await asyncio.to_thread(lambda: list(peers.log_lines(host, task_id)))
    except AcodeError as error:
        words = f"{error} ({error.hint})".encode()
        return [Line(desk.clock.now(), None, task_id, 0, "system", "warning", words)]
