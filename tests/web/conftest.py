"""One pool and its gateway for a module, and ways to talk to it."""

import json
import os
import signal
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import psutil
import pytest
from websockets.sync.client import ClientConnection, connect

from tests.pool.conftest import PATIENCE, PoolProject, eventually, pool_project
from tests.web.browsing import browser, visitor


class Reply(NamedTuple):
    """What the gateway said."""

    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of a refusal."""
        error = self.json["error"]
        assert set(error) == {"code", "message", "hint"}
        assert error["message"]
        assert error["hint"]
        return str(error["code"])


class Site:
    """A pool with its gateway."""

    def __init__(self, project: PoolProject) -> None:
        self.project = project
        self.url: str = project.pool()["apiUrl"]

    @property
    def token(self) -> str:
        return (self.project.agent / "run" / "token").read_text().strip()

    @property
    def address(self) -> str:
        return urlsplit(self.url).netloc

    def open(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = "right",
        headers: dict[str, str] | None = None,
    ) -> tuple[HTTPConnection, HTTPResponse]:
        wire = HTTPConnection(self.address, timeout=PATIENCE)
        sent = dict(headers or {})
        if token is not None:
            sent["Authorization"] = f"Bearer {self.token if token == 'right' else token}"
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        wire.putrequest(method, path, skip_host="Host" in sent)
        for name, value in {"Content-Length": str(len(data or b"")), **sent}.items():
            wire.putheader(name, value)
        wire.endheaders(data)
        return wire, wire.getresponse()

    def call(self, method: str, path: str, body: Any = None, **options: Any) -> Reply:
        wire, response = self.open(method, path, body, **options)
        try:
            return Reply(response.status, response.read(), dict(response.headers))
        finally:
            wire.close()

    def get(self, path: str, **options: Any) -> Any:
        """The JSON of an address that must answer."""
        reply = self.call("GET", path, **options)
        assert reply.status == 200, reply
        return reply.json

    def post(self, path: str, body: Any = None, status: int = 200, **options: Any) -> Any:
        reply = self.call("POST", path, body, **options)
        assert reply.status == status, reply
        return reply.json

    def add(self, command: str, **fields: Any) -> str:
        added = self.post("/api/workers/tasks", {"command": command, **fields}, 201)
        return str(added["taskId"])

    def events(self, since: int | None = None, **options: Any) -> ClientConnection:
        query = "" if since is None else f"?since={since}"
        headers = {"Authorization": f"Bearer {self.token}", **options.pop("headers", {})}
        return connect(
            f"ws://{self.address}/api/events{query}",
            additional_headers=headers,
            open_timeout=PATIENCE,
            max_queue=None,
            **options,
        )

    @property
    def process(self) -> psutil.Process:
        """The gateway."""
        found = [each for each in self.project.daemon.children() if is_gateway(each)]
        assert len(found) == 1
        return found[0]

    def kill(self) -> None:
        """End the gateway by SIGKILL."""
        victim = self.process
        os.kill(victim.pid, signal.SIGKILL)
        victim.wait(PATIENCE)

    def login_link(self) -> str:
        from acode.keys import login_link
        from acode.project import Project

        return login_link(Project(str(self.project.root)), self.url)


def is_gateway(process: psutil.Process) -> bool:
    try:
        return "acode.gateway.main" in process.cmdline()
    except psutil.Error:
        return False


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A pool of two workers for all tests of a module."""
    project = PoolProject(Path(tmp_path_factory.mktemp("site")) / "project")
    project.start(count=2)
    yield Site(project)
    project.close()


@pytest.fixture
def own_site(pool_project: PoolProject) -> Site:
    """A pool that a test may break."""
    pool_project.start(count=2)
    return Site(pool_project)


__all__ = ["Site", "browser", "eventually", "pool_project", "visitor"]
