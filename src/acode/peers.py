"""What tasks left on other hosts that share the queue, read through their gateways.

The store says where each host answers and gives the key for it: whoever may use the queue can have
any command run on every host anyway. The key opens nothing else than this.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import msgspec

from acode.clock import from_iso
from acode.errors import FileUnreadable, HostUnreachable
from acode.ids import host_name
from acode.model.host import Host, HostState
from acode.model.task import Record
from acode.observe.logparse import Record as LogRecord

if TYPE_CHECKING:
    from http.client import HTTPResponse

SECONDS = 10.0
"""How long a host may be silent; while it follows a log it says every moment that it is there."""
PATH = "/api/peers/tasks"


def places(record: Record, own_id: str | None) -> list[str | None]:
    """The hosts that attempts of a task ran on, in their order; None is this one."""
    ran = [attempt.host_id for attempt in record.attempts]
    return list(dict.fromkeys(None if each in (None, own_id) else each for each in ran)) or [None]


def last_place(record: Record, own_id: str | None) -> str | None:
    """The host that the last attempt ran on; None is this one."""
    found = record.attempts[-1].host_id if record.attempts else None
    return None if found == own_id else found


def find(hosts: Sequence[HostState], host_id: str) -> Host:
    """The host that is meant, if it can be asked."""
    name = host_name(host_id)
    found = next((each.host for each in hosts if each.host.id == host_id), None)
    if found is None:
        raise HostUnreachable(
            f"{name} is gone: what was left there cannot be read from here",
            f"start its pool again, or look there: .agent of its directory on {name}",
        )
    if found.address is None or found.key is None:
        raise HostUnreachable(
            f"{name} answers nobody but itself",
            f"set api.host in the settings of {name} to an address that others can reach, "
            "or look there",
        )
    return found


def log_lines(host: Host, task_id: str, *, follow: bool = False) -> Iterator[LogRecord]:
    """What a task printed on a host; with `follow`, until it is finished."""
    wanted = "?follow=true" if follow else ""
    with _asked(host, f"{PATH}/{task_id}/logs{wanted}") as answer:
        for line in _lines(host, answer):
            if line.strip():
                yield _record(msgspec.json.decode(line))


def patch(host: Host, task_id: str) -> bytes:
    """What a task changed on a host."""
    return read(host, f"{task_id}/patch")


def artifact_names(host: Host, task_id: str) -> list[str]:
    """The files that a task left on a host."""
    return msgspec.json.decode(read(host, f"{task_id}/artifacts"), type=list[str])


def read(host: Host, what: str) -> bytes:
    """Something that is not large."""
    return b"".join(chunks(host, what))


def chunks(host: Host, what: str) -> Iterator[bytes]:
    """Something that may be large, a part at a time."""
    with _asked(host, f"{PATH}/{quote(what)}") as answer:
        while part := answer.read(1 << 16):
            yield part


@contextmanager
def _asked(host: Host, path: str) -> Iterator["HTTPResponse"]:
    from http.client import HTTPConnection, HTTPException

    parts = urlsplit(host.address or "")
    wire = HTTPConnection(parts.hostname or "", parts.port, timeout=SECONDS)
    try:
        wire.request("GET", path, headers={"authorization": f"Bearer {host.key}"})
        answer = wire.getresponse()
        if answer.status != 200:
            raise _refusal(host, answer)
        yield answer
    except (OSError, HTTPException) as error:
        raise _silence(host, error) from error
    finally:
        wire.close()


def _lines(host: Host, answer: "HTTPResponse") -> Iterator[bytes]:
    from http.client import HTTPException

    try:
        yield from answer
    except (OSError, HTTPException) as error:
        raise _silence(host, error) from error


def _silence(host: Host, error: Exception) -> HostUnreachable:
    return HostUnreachable(
        f"{host.name} does not answer at {host.address}: {error or 'no word'}",
        f"see whether its pool runs and lets {host.address} be reached, or look there",
    )


def _refusal(host: Host, answer: "HTTPResponse") -> Exception:
    if answer.status == 404:
        return FileUnreadable(f"{host.name} has no such file", "its time to be kept may be over")
    return HostUnreachable(f"{host.name} refuses to answer: {answer.status} {answer.reason}")


def _record(view: Any) -> LogRecord:
    return LogRecord(
        from_iso(view["time"]),
        view["workerId"],
        view["taskId"],
        view["attempt"] or 0,
        view["stream"],
        view["level"],
        view["message"].encode("utf-8", "replace"),
    )
