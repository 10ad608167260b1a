"""What is asked for all the time goes a short way; nobody can tell but by the time it takes."""

import json
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pytest

from tests.web.conftest import Reply, Site

OFTEN = ("/api/workers", "/api/workers/health", "/api/queue", "/api/workers/tasks?limit=3")
MOVING = ("date", "connection", "content-length")


class Wire:
    """A connection that is kept: only those may take the short way."""

    def __init__(self, site: Site) -> None:
        self._wire = HTTPConnection(site.address, timeout=60)
        self._key = {
            "Authorization": f"Bearer {site.token}",
            "Content-Type": "application/json",
        }

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        data = None if body is None else json.dumps(body)
        self._wire.request(method, path, data, {**self._key, **headers})
        answer = self._wire.getresponse()
        return Reply(answer.status, answer.read(), dict(answer.headers))

    def close(self) -> None:
        self._wire.close()


@pytest.fixture
def wire(site: Site) -> Iterator[Wire]:
    wire = Wire(site)
    yield wire
    wire.close()


def test_the_short_way_and_the_usual_one_lead_to_the_same(site: Site, wire: Wire) -> None:
    site.add("true")
    for path in OFTEN:
        first, short = wire.call("GET", path), wire.call("GET", path)
        usual = wire.call("GET", path, Connection="close")
        wire.close()
        assert {first.status, short.status, usual.status} == {200}, path
        assert set(short.json[0] if path == OFTEN[-1] else short.json) == set(
            usual.json[0] if path == OFTEN[-1] else usual.json
        )
        assert _still(short) == _still(usual)


def _still(reply: Reply) -> dict[str, str]:
    return {name: value for name, value in reply.headers.items() if name not in MOVING}


def test_whoever_writes_sees_it_at_once(site: Site, wire: Wire) -> None:
    newest = "/api/workers/tasks?limit=1&reverse=1"
    for _ in range(20):
        wire.call("GET", newest)
        wire.call("GET", "/api/queue")
        added = wire.call("POST", "/api/workers/tasks", {"command": "true"}).json["taskId"]
        assert wire.call("GET", newest).json[0]["id"] == added
    for paused in (True, False, True, False):
        wire.call("GET", "/api/queue")
        wire.call("POST", f"/api/queue/{'pause' if paused else 'resume'}")
        assert wire.call("GET", "/api/queue").json["paused"] is paused


def test_the_short_way_is_guarded_too(site: Site, wire: Wire) -> None:
    for path in OFTEN:
        assert wire.call("GET", path).status == 200
        assert wire.call("GET", path, Host="evil.example").code == "FOREIGN_HOST"
        assert wire.call("GET", path, Origin="http://evil.example").code == "FOREIGN_ORIGIN"
        if path != "/api/workers/health":
            assert wire.call("GET", path, Authorization="Bearer wrong").status in (401, 429)
            assert wire.call("GET", path, Authorization="").status in (401, 429)
        assert wire.call("GET", path).status == 200
    assert wire.call("HEAD", "/api/queue").status == 405
    assert wire.call("GET", "/api/workers/tasks?limit=-1").status == 422
    assert wire.call("GET", "/api/workers/tasks?limit=-1").status == 422


def _raw(site: Site, *requests: str) -> list[bytes]:
    """The bodies of answers to requests that are sent at once."""
    host, port = site.address.split(":")
    with socket.create_connection((host, int(port)), timeout=60) as wire:
        head = f"Host: {site.address}\r\nAuthorization: Bearer {site.token}\r\n"
        wire.sendall(
            "".join(each.replace("|", f" HTTP/1.1\r\n{head}", 1) for each in requests).encode()
        )
        return [_answer(wire) for _ in requests]


def _answer(wire: socket.socket) -> bytes:
    got = b""
    while b"\r\n\r\n" not in got:
        got += wire.recv(1)
    assert b" 200 " in got.split(b"\r\n")[0], got
    left = int(got.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    body = b""
    while len(body) < left:
        body += wire.recv(left - len(body))
    return body


def test_answers_come_in_the_order_of_the_questions(site: Site) -> None:
    task = site.add("true")
    usual, short = f"GET /api/workers/tasks/{task}|\r\n", "GET /api/queue|\r\n"
    for _ in range(5):
        found = _raw(site, short, usual, short, short, usual)
        kinds = ["id" if json.loads(body).get("id") == task else "queue" for body in found]
        assert kinds == ["queue", "id", "queue", "queue", "id"]


def test_a_read_with_a_body_does_not_confuse_anybody(site: Site) -> None:
    long = "GET /api/queue|Content-Length: 5\r\n\r\nhello"
    chunked = "GET /api/queue|Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    plain = "GET /api/queue|\r\n"
    bodies = _raw(site, plain, long, plain, chunked, plain)
    assert all("waiting" in json.loads(body) for body in bodies)
