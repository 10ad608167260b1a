"""`/api/events`: numbered, complete, in order; also for those who were away."""

import json
import os
import socket
import struct
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection

from acode.clock import Deadline
from tests.pool.conftest import PATIENCE
from tests.web.conftest import Site


def read(wire: ClientConnection) -> Any:
    return json.loads(wire.recv(timeout=PATIENCE))


def read_until(wire: ClientConnection, type_: str, **payload: Any) -> list[Any]:
    """Events up to the first one of this kind."""
    found = []
    deadline = Deadline(PATIENCE)
    while deadline.left() > 0:
        found.append(read(wire))
        last = found[-1]
        if last["type"] == type_ and payload.items() <= last["payload"].items():
            return found
    raise AssertionError(f"no {type_}: {found}")


def of(events: list[Any], task: str) -> list[str]:
    return [event["type"] for event in events if event["payload"].get("taskId") == task]


@pytest.mark.req("forge-31")
def test_events_have_the_payloads_of_the_seed(site: Site) -> None:
    with site.events() as wire:
        good, bad = site.add("true"), site.add("exit 3")
        events = read_until(wire, "task.completed", taskId=good)
        if "task.failed" not in of(events, bad):
            events += read_until(wire, "task.failed", taskId=bad)
        site.post("/api/workers/scale", {"count": 3})
        events += read_until(wire, "pool.scaled")
        site.post("/api/workers/scale", {"count": 2})
        events += read_until(wire, "pool.scaled", direction="down")
    for event in events:
        assert set(event) == {"type", "payload", "timestamp", "seq"}
        assert event["timestamp"].endswith("Z")
    seqs = [event["seq"] for event in events]
    assert seqs == sorted(set(seqs))
    assert of(events, good) == ["task.added", "task.assigned", "task.completed"]
    by_type = {event["type"]: event["payload"] for event in events}
    workers = {worker["id"] for worker in site.project.workers()}
    assert by_type["task.assigned"]["workerId"] in workers
    assert by_type["task.completed"]["result"]["exitCode"] == 0
    assert by_type["task.failed"]["error"]["code"] == "EXIT_CODE"
    assert {"workerId", "status"} <= set(by_type["worker.status"])
    busy = [e for e in events if e["type"] == "worker.status" and e["payload"]["status"] == "busy"]
    assert {event["payload"]["task"] for event in busy} == {good, bad}
    assert by_type["pool.scaled"] | {"reason": ""} == {
        "direction": "down", "count": 1, "was": 3, "now": 2, "reason": "",
    }  # fmt: skip


def test_what_was_missed_is_replayed_once_and_in_order(own_site: Site) -> None:
    with own_site.events() as wire:
        first = own_site.add("true")
        last = read_until(wire, "task.completed", taskId=first)[-1]["seq"]
    own_site.kill()
    second = own_site.project.add("true")  # while there is no gateway
    own_site.project.wait(second)
    own_site.project.run("worker", "scale", "3")
    with own_site.events(since=last) as wire:
        missed = read_until(wire, "pool.scaled")
        third = own_site.add("true")
        missed += read_until(wire, "task.completed", taskId=third)
    assert of(missed, first) == []
    assert of(missed, second) == ["task.added", "task.assigned", "task.completed"]
    assert of(missed, third) == ["task.added", "task.assigned", "task.completed"]
    seqs = [event["seq"] for event in missed]
    assert seqs == sorted(set(seqs))
    assert seqs[0] > last
    with own_site.events(since=0) as wire:
        everything = read_until(wire, "task.completed", taskId=third)
    assert [e for e in everything if e["seq"] > last] == missed, "the same numbers for everybody"


def test_events_of_before_the_daemon_was_started(own_site: Site) -> None:
    own_site.project.kill_hard()
    task = own_site.project.add("true")
    own_site.project.start(count=2)
    site = Site(own_site.project)
    with site.events(since=0) as wire:
        events = read_until(wire, "task.completed", taskId=task)
    assert of(events, task) == ["task.added", "task.assigned", "task.completed"]


def test_where_nothing_happens_there_is_a_heartbeat(own_site: Site) -> None:
    with own_site.events() as wire:
        beat = read_until(wire, "heartbeat")[-1]
    task = own_site.add("true")
    with own_site.events(since=beat["seq"]) as wire:
        events = read_until(wire, "task.completed", taskId=task)
    assert of(events, task) == ["task.added", "task.assigned", "task.completed"]


def test_every_follower_gets_the_same(site: Site) -> None:
    with ExitStack() as stack:
        wires = [stack.enter_context(site.events()) for _ in range(5)]
        tasks = [site.add("true") for _ in range(10)]
        heard = [read_until(wire, "task.completed", taskId=tasks[-1]) for wire in wires]
    starts = max(events[0]["seq"] for events in heard)
    ends = min(events[-1]["seq"] for events in heard)
    common = [[e for e in events if starts <= e["seq"] <= ends] for events in heard]
    assert all(events == common[0] for events in common)


@pytest.mark.parametrize("since", ["-1", "x", "1.5", "9" * 40, "%00"])
def test_a_number_that_is_none_is_refused(site: Site, since: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        site.events(since=since).close()  # type: ignore[arg-type]
    assert refused.value.response.status_code == 422


def test_a_slow_reader_is_dropped_and_told_why(own_site: Site) -> None:
    own_site.get("/api/workers")
    host, port = own_site.address.split(":")
    with socket.socket() as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.settimeout(PATIENCE)
        wire.connect((host, int(port)))
        wire.sendall(handshake(own_site))
        assert wire.recv(4096).startswith(b"HTTP/1.1 101")
        # Nothing is read, and far more comes than any buffer holds.
        own_site.project.run("queue", "pause")
        for _ in range(6):
            own_site.project.add_all([{"command": "true"} for _ in range(9_000)])
        with own_site.events() as other:
            task = own_site.add("true")
            read_until(other, "task.added", taskId=task)
        rest = b""
        with suppress(ConnectionResetError):
            while chunk := wire.recv(1 << 16):
                rest = (rest + chunk)[-4096:]
        # The last frame is the good-bye: its code, then the reason.
        reason = b"too slow: come back with since"
        assert rest.endswith(struct.pack("!BBH", 0x88, len(reason) + 2, 1013) + reason)


def handshake(site: Site) -> bytes:
    return (
        f"GET /api/events HTTP/1.1\r\nHost: {site.address}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        f"Authorization: Bearer {site.token}\r\n\r\n"
    ).encode()


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(junk=st.binary(max_size=300))
def test_strange_frames_hurt_nobody(site: Site, junk: bytes) -> None:
    host, port = site.address.split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as wire:
        wire.sendall(handshake(site))
        assert b" 101 " in wire.recv(4096)
        wire.sendall(junk)
    assert site.get("/api/workers/health", token=None)["status"] == "healthy"


def test_a_client_that_says_things_is_not_heeded(site: Site) -> None:
    with site.events() as wire:
        for text in ("hello", "{}", "x" * 10_000):
            wire.send(text)
        wire.send(os.urandom(100))
        task = site.add("true")
        read_until(wire, "task.completed", taskId=task)


def test_followers_are_told_when_the_gateway_ends(own_site: Site) -> None:
    with own_site.events() as wire:
        own_site.project.stop()
        with pytest.raises(ConnectionClosed):
            read_until(wire, "never")
