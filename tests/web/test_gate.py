"""Who may come in, and what happens to the gateway."""

import os
import signal
import socket
import stat
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from acode.keys import LOGIN_MS
from tests.pool.conftest import PoolProject, eventually, is_gone
from tests.web.conftest import Site, is_gateway

CLOSED = ["/api/workers", "/api/dlq", "/metrics", "/openapi.json", "/docs", "/api/governance", "/"]


def test_everything_but_health_needs_the_token(site: Site) -> None:
    for path in CLOSED:
        for token in (None, "wrong", site.token[:-1], site.token + "x", ""):
            reply = site.call("GET", path, token=token)
            assert reply.status in (401, 429), (path, token)
            if reply.status == 401:
                assert reply.headers["www-authenticate"] == "Bearer"
    assert site.call("GET", "/api/workers/health", token=None).status == 200
    assert site.call("GET", "/api/workers").status == 200, "a right key is never too late"


def test_the_token_is_for_its_owner_only(site: Site) -> None:
    path = site.project.agent / "run" / "token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8470", "127.0.0.1.evil.example", "10.0.0.1", "", "[::2]"]
)
def test_another_host_is_dns_rebinding(site: Site, host: str) -> None:
    for path in ("/api/workers", "/api/workers/health", "/"):
        reply = site.call("GET", path, headers={"Host": host})
        assert (reply.status, reply.code) == (403, "FOREIGN_HOST")


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://evil.example", ""]
)
def test_another_origin_is_refused(site: Site, origin: str) -> None:
    for method, path in (("GET", "/api/workers"), ("POST", "/api/workers/tasks")):
        body = {"command": "true"} if method == "POST" else None
        reply = site.call(method, path, body, headers={"Origin": origin})
        assert (reply.status, reply.code) == (403, "FOREIGN_ORIGIN")
    assert site.call("GET", "/api/workers", headers={"Origin": site.url}).status == 200


def test_a_web_socket_needs_the_same(site: Site) -> None:
    for headers in ({"Authorization": "Bearer wrong"}, {"Origin": "http://evil.example"}):
        with pytest.raises(InvalidStatus) as refused:
            site.events(headers=headers).close()
        assert refused.value.response.status_code in (401, 403, 429)


def test_a_large_body_is_refused(site: Site) -> None:
    reply = site.call("POST", "/api/workers/tasks", b" " * ((1 << 20) + 1))
    assert (reply.status, reply.code) == (413, "TOO_LARGE")


def test_a_large_body_without_a_length_is_refused(site: Site) -> None:
    host, port = site.address.split(":")
    with socket.create_connection((host, int(port)), timeout=60) as wire:
        head = f"POST /api/workers/tasks HTTP/1.1\r\nHost: {site.address}\r\nAuthorization: Bearer {site.token}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"  # noqa: E501
        wire.sendall(head.encode())
        chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        try:
            for _ in range(20):
                wire.sendall(chunk)
            wire.sendall(b"0\r\n\r\n")
        except OSError:
            return  # cut off
        assert b" 413 " in wire.recv(4096).split(b"\r\n")[0]


@pytest.mark.parametrize(
    "name",
    ["../../config.yml", "..%2f..%2frun%2ftoken", "%2e%2e/%2e%2e/run/token", "/etc/passwd", "link"],
)
def test_no_path_leaves_its_directory(site: Site, name: str) -> None:
    task = site.add("true")
    folder = site.project.agent / "artifacts" / task
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "good.txt").write_text("good")
    if not (folder / "link").is_symlink():
        (folder / "link").symlink_to(site.project.agent / "run" / "token")
    assert site.call("GET", f"/api/workers/tasks/{task}/artifacts/good.txt").body == b"good"
    assert site.get(f"/api/workers/tasks/{task}/artifacts") == ["good.txt"]
    reply = site.call("GET", f"/api/workers/tasks/{task}/artifacts/{name}")
    assert reply.status in (404, 422)
    assert site.token.encode() not in reply.body


# Browsers.


def login(site: Site) -> str:
    link = site.login_link().removeprefix(site.url)
    reply = site.call("GET", link, token=None)
    assert reply.status == 303
    cookie = reply.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    return cookie.split(";")[0]


def test_a_login_link_works_once(site: Site) -> None:
    link = site.login_link().removeprefix(site.url)
    assert site.call("GET", link, token=None).status == 303
    for headers in ({}, {"Accept": "text/html"}):
        again = site.call("GET", link, token=None, headers=headers)
        assert again.status == 401
        assert b"used already" in again.body
    assert site.call("GET", "/login?code=../token", token=None).status == 401


def test_a_login_link_does_not_wait_for_ever(site: Site) -> None:
    link = site.login_link().removeprefix(site.url)
    slip = max((site.project.agent / "run" / "login").iterdir(), key=os.path.getmtime)
    old = slip.stat().st_mtime - LOGIN_MS / 1000 - 10
    os.utime(slip, (old, old))
    assert site.call("GET", link, token=None).status == 401


def test_worker_start_prints_a_login_link(pool_project: PoolProject) -> None:
    done = pool_project.start(count=1)
    (line,) = [line for line in done.out.splitlines() if "Dashboard:" in line]
    site = Site(pool_project)
    assert line.split()[1].startswith(f"{site.url}/login?code=")
    assert site.call("GET", line.split()[1].removeprefix(site.url), token=None).status == 303


def test_a_cookie_reads_and_does_nothing_else(site: Site) -> None:
    cookie = {"Cookie": login(site)}
    assert site.call("GET", "/api/workers", token=None, headers=cookie).status == 200
    body = {"command": "touch owned"}
    for extra in ({}, {"Origin": site.url}):
        reply = site.call("POST", "/api/workers/tasks", body, token=None, headers=cookie | extra)
        assert reply.status == 401
    for site_kind in ("cross-site", "same-site"):
        headers = cookie | {"Sec-Fetch-Site": site_kind}
        assert site.call("GET", "/api/workers", token=None, headers=headers).status == 401
    name, _, value = cookie["Cookie"].partition("=")
    forged = {"Cookie": f"{name}=9{value}"}
    assert site.call("GET", "/api/workers", token=None, headers=forged).status == 401


def test_a_stranger_with_a_browser_is_shown_the_door(site: Site) -> None:
    reply = site.call("GET", "/", token=None, headers={"Accept": "text/html"})
    assert reply.status == 401
    assert b"acode dashboard --link" in reply.body
    assert reply.headers["x-frame-options"] == "DENY"


# The life of the gateway.


def test_the_next_caller_finds_another_gateway(own_site: Site) -> None:
    own_site.get("/api/workers")
    first = own_site.process
    own_site.kill()
    assert own_site.get("/api/workers")["isRunning"] is True
    assert own_site.process.pid != first.pid
    assert own_site.project.pool()["apiUrl"] == own_site.url


def test_nobody_calls_so_nobody_is_started(own_site: Site) -> None:
    assert not [each for each in own_site.project.daemon.children() if is_gateway(each)]


def test_the_gateway_ends_with_the_daemon(own_site: Site) -> None:
    own_site.get("/api/workers")
    gateway = own_site.process
    own_site.project.kill_hard()
    eventually(lambda: is_gone(gateway))
    own_site.project.start(count=2)
    assert Site(own_site.project).get("/api/workers")["isRunning"]


def test_a_frozen_gateway_does_not_touch_the_pool(own_site: Site) -> None:
    own_site.get("/api/workers")
    os.kill(own_site.process.pid, signal.SIGSTOP)
    task = own_site.project.add("true")
    assert own_site.project.wait(task).code == 0
    own_site.project.stop()
    assert own_site.project.processes() == []


def test_a_port_by_default_moves_and_one_that_was_set_does_not(
    site: Site, pool_project: PoolProject
) -> None:
    pool_project.start(count=1)
    other = pool_project.pool()["apiUrl"]
    assert other != site.url
    pool_project.stop()
    taken = int(site.address.split(":")[1])
    pool_project.configure(api={"port": taken})
    done = pool_project.run("worker", "start", "--count", "1")
    assert done.code == 1
    assert done.err.startswith("acode: API-001: ")
    assert not pool_project.has_daemon()


def test_without_the_extra_there_is_a_note_and_no_failure(pool_project: PoolProject) -> None:
    hidden = Path(pool_project.root).with_name("hidden")
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import importlib.util as u\nf = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'fastapi' else f(name, *a)\n"
    )
    pool_project.env["PYTHONPATH"] = str(hidden)
    done = pool_project.start(count=1)
    assert "Dashboard: not installed (pip install 'acode[web]')" in done.out
    assert pool_project.pool()["apiUrl"] is None
    assert "pip install 'acode[web]'" in pool_project.daemon_log()


def test_the_api_can_be_off(pool_project: PoolProject) -> None:
    pool_project.configure(api={"enabled": False})
    assert "Dashboard: off" in pool_project.start(count=1).out
    assert pool_project.pool()["apiUrl"] is None


def test_a_long_path_is_no_problem(tmp_path: Path) -> None:
    project = PoolProject(tmp_path / ("d" * 120) / "project")
    try:
        project.start(count=1)
        assert Site(project).get("/api/workers")["isRunning"]
    finally:
        project.close()


def test_the_daemon_imports_no_web_framework(own_site: Site) -> None:
    maps = Path(f"/proc/{own_site.project.daemon.pid}/maps").read_text()
    assert "pydantic" not in maps
