"""What tasks left on other hosts, passed on by this one."""

import asyncio
from collections.abc import Iterator, Sequence

from fastapi.responses import Response, StreamingResponse

from acode import peers
from acode.errors import AcodeError, HostUnreachable
from acode.gateway.desk import Desk
from acode.hosts import known_host_id
from acode.model.host import Host, HostState
from acode.observe.logparse import Record as Line
from acode.observe.logread import read


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
    # Asked for before the answer begins, so that a refusal can still be one.
    first = await asyncio.to_thread(next, parts, b"")
    return StreamingResponse(_with(first, parts), media_type=media_type)


def _with(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


Source = Host | HostUnreachable | None
"""Where a part of a log is, or why it cannot be read; None is here."""


async def sources(desk: Desk, task_id: str) -> Sequence[Source]:
    """Where a task printed something, in the order of its attempts."""
    if not desk.settings.store.is_shared:
        return [None]
    record, hosts = await desk.store.record(task_id), await desk.store.hosts()
    places = peers.places(record, known_host_id(desk.project))
    found = [None if place is None else _host_or_why(hosts, place) for place in places]
    if len(found) == 1 and isinstance(found[0], HostUnreachable):
        raise found[0]
    return found


def _host_or_why(hosts: Sequence[HostState], host_id: str) -> Host | HostUnreachable:
    try:
        return peers.find(hosts, host_id)
    except HostUnreachable as error:
        return error


def printed(path: str, task_id: str, sources: Sequence[Source], now: int) -> Iterator[Line]:
    """Everything that a task printed, wherever that was; what cannot be read is a line, too."""
    for source in sources:
        try:
            if isinstance(source, HostUnreachable):
                yield _excuse(source, task_id, now)
            else:
                yield from read(path) if source is None else peers.log_lines(source, task_id)
        except HostUnreachable as error:
            yield _excuse(error, task_id, now)


def _excuse(error: AcodeError, task_id: str, now: int) -> Line:
    words = f"{error} ({error.hint})".encode()
    return Line(now, None, task_id, 0, "system", "warning", words)


async def lines_elsewhere(desk: Desk, task_id: str) -> list[Line] | None:
    """What the last attempt printed, or why that cannot be read; None if it is here."""
    try:
        host = await holder(desk, task_id)
        if host is None:
            return None
        return await asyncio.to_thread(lambda: list(peers.log_lines(host, task_id)))
    except AcodeError as error:
        return [_excuse(error, task_id, desk.clock.now())]
