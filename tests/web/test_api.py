"""The HTTP API: every route of the contract, against a real pool."""

import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.pool.conftest import PoolProject, eventually
from tests.web.conftest import Site


def finished(site: Site, task: str) -> Any:
    return eventually(
        lambda: (
            found
            if (found := site.get(f"/api/workers/tasks/{task}"))["status"]
            in ("completed", "failed", "cancelled")
            else None
        )
    )


@pytest.mark.req("forge-07")
def test_a_task_from_birth_to_end(site: Site) -> None:
    task = site.add(
        "echo $GREETING; echo oops >&2",
        type="shell",
        priority="high",
        workstreamId="w1",
        env={"GREETING": "hi"},
        timeout=5000,
        retryCount=2,
        metadata={"ticket": 7},
    )
    found = finished(site, task)
    assert found["status"] == "completed"
    assert (found["priority"], found["workstreamId"]) == ("high", "w1")
    assert (found["timeoutSeconds"], found["retryLimit"]) == (5.0, 2)
    assert found["metadata"] == {"ticket": 7}
    assert found == site.project.show(task), "the same at every door"
    lines = site.get(f"/api/workers/tasks/{task}/logs")
    assert sorted((line["stream"], line["message"]) for line in lines) == [
        ("stderr", "oops"),
        ("stdout", "hi"),
    ]


def test_a_task_cannot_wait_for_one_that_is_not_there(site: Site) -> None:
    reply = site.call("POST", "/api/workers/tasks", {"command": "true", "dependencies": ["01J"]})
    assert (reply.status, reply.code) == (404, "TASK-001")


def test_args_are_executed_without_a_shell(site: Site) -> None:
    task = site.add("printf", args=["%s", "a b;c"])
    assert finished(site, task)["status"] == "completed"
    assert site.get(f"/api/workers/tasks/{task}/logs")[0]["message"] == "a b;c"


def test_logs_are_followed_until_the_end(site: Site) -> None:
    task = site.add("for i in 1 2 3; do echo $i; sleep 0.1; done")
    reply = site.call("GET", f"/api/workers/tasks/{task}/logs?follow=1")
    assert [json.loads(line)["message"] for line in reply.body.splitlines()] == ["1", "2", "3"]
    assert site.get(f"/api/workers/tasks/{task}")["status"] == "completed"


def test_a_running_task_is_cancelled(site: Site) -> None:
    task = site.add("sleep 600")
    eventually(lambda: site.get(f"/api/workers/tasks/{task}")["status"] == "running")
    reply = site.call("DELETE", f"/api/workers/tasks/{task}")
    assert reply.status == 200
    assert finished(site, task)["status"] == "cancelled"
    again = site.call("DELETE", f"/api/workers/tasks/{task}")
    assert (again.status, again.code) == (409, "TASK-003")
    assert site.post(f"/api/workers/tasks/{task}/retry")["status"] == "pending"
    site.call("DELETE", f"/api/workers/tasks/{task}?force=1")
    finished(site, task)


def test_tasks_are_listed_filtered_and_paged(site: Site) -> None:
    tasks = [site.add("true", workstreamId="paging", title=f"page {n}") for n in range(5)]
    for task in tasks:
        finished(site, task)
    listed = site.get("/api/workers/tasks?workstream=paging&status=completed&limit=2&offset=1")
    assert [row["id"] for row in listed] == tasks[1:3]
    assert "env" not in listed[0]
    newest = site.get("/api/workers/tasks?workstream=paging&reverse=1&limit=1")
    assert newest[0]["id"] == tasks[-1]
    assert [row["id"] for row in site.get("/api/workers/tasks?search=PAGE%203")] == [tasks[3]]


def test_why(site: Site) -> None:
    task = site.add("true")
    finished(site, task)
    assert "it completed at" in site.get(f"/api/workers/tasks/{task}/why")["reasons"][0]


def test_dead_letters_are_listed_retried_and_dropped(site: Site) -> None:
    task = site.add("exit 3")
    finished(site, task)
    (letter,) = [each for each in site.get("/api/dlq") if each["taskId"] == task]
    assert letter == site.project.ask("dlq", "show", task)
    assert site.post(f"/api/dlq/{task}/retry")["status"] == "pending"
    finished(site, task)
    dropped = site.call("DELETE", f"/api/dlq/{task}")
    assert (dropped.status, dropped.json["status"]) == (200, "cancelled")
    assert site.call("DELETE", f"/api/dlq/{task}").code == "TASK-001"


@pytest.mark.req("forge-08")
def test_workers_are_shown_and_scaled(site: Site) -> None:
    pool, status = site.get("/api/workers"), site.project.pool()
    assert set(pool) == set(status)
    assert [each["id"] for each in pool["workers"]] == [each["id"] for each in status["workers"]]
    one = pool["workers"][0]["id"]
    assert site.get(f"/api/workers/{one}")["id"] == one
    assert site.get(f"/api/workers/worker-{one}")["id"] == one
    assert site.post("/api/workers/scale/up", {"count": 2})["count"] == 4
    assert site.post("/api/workers/scale/down", {"count": 1})["count"] == 3
    assert site.post("/api/workers/scale", {"count": 2})["count"] == 2
    eventually(lambda: len(site.get("/api/workers")["workers"]) == 2)
    assert site.call("GET", "/api/workers/0000").code == "WORKER-001"


@pytest.mark.req("forge-09", "027-FR-066")
def test_a_worker_has_metrics_of_its_own(site: Site) -> None:
    one = site.get("/api/workers")["workers"][0]["id"]
    found = site.get(f"/api/workers/{one}/metrics")
    assert found["workerId"] == one
    assert found["memoryMb"] > 0
    assert {"cpuPercent", "tasksCompleted", "tasksFailed", "restarts"} <= set(found)


@pytest.mark.req("forge-24")
def test_health_needs_no_token(site: Site) -> None:
    health = site.get("/api/workers/health", token=None)
    assert set(health) == {"status", "workers", "queue", "lastCheck"}
    assert set(health["workers"]) == {"total", "active", "idle", "error"}
    assert set(health["queue"]) == {"depth", "oldestTaskAge"}
    assert health["status"] == "healthy"
    site.post("/api/queue/pause")
    task = site.add("true")
    waiting = eventually(
        lambda: (
            found
            if (found := site.get("/api/workers/health")["queue"])["oldestTaskAge"] > 0
            else None
        )
    )
    assert waiting["depth"] == 1
    assert site.get("/api/queue")["paused"] is True
    assert site.post("/api/queue/resume") == {"paused": False, "changed": True}
    finished(site, task)


@pytest.mark.req("forge-30")
def test_governance(site: Site) -> None:
    path = site.project.agent / "governance.json"
    eventually(path.exists)
    state = site.get("/api/governance")["workerPool"]
    assert state["totalWorkers"] == 2
    assert {"tasksCompleted24h", "avgTaskDurationMs", "workers"} <= set(state)


@pytest.mark.req("forge-23", "forge-09", "lld-22", "027-AC-013")
@pytest.mark.req("027-FR-024", "027-FR-025", "027-FR-066")
def test_metrics_have_the_names_of_the_seed(site: Site) -> None:
    finished(site, site.add("true", type="shell"))
    finished(site, site.add("exit 4"))
    site.post("/api/queue/pause")
    waiting = [site.add("true") for _ in range(7)]
    site.call("GET", "/metrics")
    site.post("/api/queue/resume")
    for task in waiting:
        finished(site, task)
    text = site.call("GET", "/metrics").body.decode()
    found = {family.name: family for family in text_string_to_metric_families(text)}
    names = {
        "pool_workers_total": "gauge",
        "pool_workers_active": "gauge",
        "pool_workers_idle": "gauge",
        "pool_workers_error": "gauge",
        "pool_tasks_queued": "gauge",
        "pool_tasks_completed": "counter",
        "pool_tasks_failed": "counter",
        "pool_tasks_duration_ms": "histogram",
        "worker_memory_mb": "gauge",
        "worker_cpu_percent": "gauge",
    }
    for name, kind in names.items():
        assert found[name].type == kind, name
        assert [sample for sample in found[name].samples if sample.name.startswith(name)], name
    # The parser knows counters by another name; Prometheus itself takes this one as it is.
    value = {name: float(n) for name, n in re.findall(r"^(\w+) (\S+)$", text, re.MULTILINE)}
    assert value["pool_workers_total"] == 2
    assert value["pool_tasks_completed"] >= 1
    assert value["pool_tasks_failed"] >= 1
    assert value["pool_tasks_submitted"] >= 2
    assert value["pool_queue_high_water"] >= 7, "it stays when the queue is empty again"
    assert value["pool_tasks_queued"] == 0
    durations = found["pool_tasks_duration_ms"].samples
    (count,) = [s.value for s in durations if s.name.endswith("_count")]
    (everything,) = [s.value for s in durations if s.labels.get("le") == "+Inf"]
    assert count == everything == value["pool_tasks_completed"]
    assert all(s.labels["type"] == "shell" for s in durations)
    assert len(found["worker_memory_mb"].samples) == 2


def test_the_ready_dashboard_asks_for_what_there_is(site: Site) -> None:
    finished(site, site.add("true"))
    text = site.call("GET", "/metrics").body.decode()
    names = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    board = json.loads((Path(__file__).parents[2] / "docs/grafana/acode.json").read_text())
    asked = {
        name.removesuffix("_bucket")
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"\b(?:pool|worker)_\w+", target["expr"])
    }
    assert len(asked) > 15
    assert asked <= names


# What is refused.


def test_a_task_that_makes_no_sense_is_refused_with_every_problem(site: Site) -> None:
    reply = site.call("POST", "/api/workers/tasks", {"command": "x", "type": "magic"})
    assert (reply.status, reply.code) == (400, "INVALID_TASK")
    assert "magic" in reply.json["error"]["message"]
    for body in ({}, {"command": ""}, {"command": "x", "shoe": 1}, {"command": "x", "timeout": -1}):
        reply = site.call("POST", "/api/workers/tasks", body)
        assert (reply.status, reply.code) == (422, "INVALID_REQUEST"), body
    reply = site.call("POST", "/api/workers/tasks", b'{"command": "\\ud800"}')
    assert reply.status in (400, 422)
    reply = site.call("POST", "/api/workers/tasks", b"{ half")
    assert reply.status == 422


def test_what_is_dangerous_or_asks_for_too_much_is_refused(pool_project: PoolProject) -> None:
    pool_project.configure(sandbox={"level": "off", "blockedCommands": ["deploy*"]})
    pool_project.start(count=1)
    site = Site(pool_project)
    for command in ("rm -rf /", "deploy now"):
        reply = site.call("POST", "/api/workers/tasks", {"command": command})
        assert (reply.status, reply.code) == (400, "BLOCKED_COMMAND"), command
    greedy = {"command": "true", "limits": {"memoryMb": 10**8}}
    reply = site.call("POST", "/api/workers/tasks", greedy)
    assert (reply.status, reply.code) == (400, "INVALID_TASK")
    assert "memoryMb" in reply.json["error"]["message"]


def test_what_is_not_there(site: Site) -> None:
    for path in ("/api/workers/tasks/01ZZZ", "/api/dlq/01ZZZ/retry", "/api/nothing"):
        method = "POST" if path.endswith("retry") else "GET"
        reply = site.call(method, path)
        assert reply.status == 404
        assert reply.code in ("TASK-001", "NOT_FOUND")
    assert site.call("PUT", "/api/workers").code == "METHOD_NOT_ALLOWED"


def test_a_full_queue_is_busy_not_broken(pool_project: PoolProject) -> None:
    pool_project.configure(tasks={"queueSize": 2})
    pool_project.run("queue", "pause")
    pool_project.start(count=1)
    site = Site(pool_project)
    for _ in range(2):
        site.add("true")
    reply = site.call("POST", "/api/workers/tasks", {"command": "true"})
    assert (reply.status, reply.code) == (503, "QUEUE-001")
    assert int(reply.headers["retry-after"]) > 0


def test_the_same_id_is_the_same_task(site: Site) -> None:
    first = site.add("true", id="forge-1")
    assert site.add("true", id="forge-1") == first


def test_the_pool_is_shut_down(own_site: Site) -> None:
    assert own_site.post("/api/workers/shutdown", {"force": False}, 202)["stopping"] is True
    eventually(lambda: not own_site.project.has_daemon())
    assert own_site.project.processes() == []


def test_a_unix_socket_answers_as_well(site: Site) -> None:
    wire = socket.socket(socket.AF_UNIX)
    wire.settimeout(60)
    wire.connect(str(site.project.agent / "run" / "api.sock"))
    request = f"GET /api/queue HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {site.token}\r\n\r\n"  # noqa: E501
    wire.sendall(request.encode())
    answer = b""
    while chunk := wire.recv(65536):
        answer += chunk
    wire.close()
    assert answer.startswith(b"HTTP/1.1 200")


def test_the_api_is_documented_for_people(site: Site) -> None:
    page = site.call("GET", "/docs").body.decode()
    assert "/api/workers/tasks/{task_id}/retry" in page
    assert "<script" not in page
    assert "http" not in page.replace(site.url, "")


def test_an_address_says_which_methods_it_takes(site: Site) -> None:
    for path, allowed in (
        ("/api/workers/tasks", "GET, POST"),
        (f"/api/workers/tasks/{site.add('true')}", "DELETE, GET"),
        ("/api/workers/scale", "GET, POST"),
        ("/api/dlq", "GET"),
        ("/metrics", "GET"),
    ):
        reply = site.call("PUT", path)
        assert (reply.status, reply.code) == (405, "METHOD_NOT_ALLOWED")
        assert reply.headers["allow"] == allowed


def test_a_bad_body_is_told_what_is_wrong_with_it(site: Site) -> None:
    def refusal(body: bytes, kind: str = "application/json") -> dict[str, str]:
        headers = {"Content-Type": kind}
        reply = site.call("POST", "/api/workers/tasks", body, headers=headers)
        assert (reply.status, reply.code) == (422, "INVALID_REQUEST")
        return dict(reply.json["error"])

    assert refusal(b'{"command": ')["message"].startswith("body: no JSON, from character 12 on: ")
    form = refusal(b'{"command": "true"}', "application/x-www-form-urlencoded")
    assert form["hint"] == "send it with Content-Type: application/json"
    assert "Content-Type" not in refusal(b"{}")["hint"]


def test_nobody_is_told_of_fewer_than_no_workers(site: Site) -> None:
    said = site.post("/api/workers/scale/down", {"count": 50})["message"]
    assert "instead of 0" in said
    site.post("/api/workers/scale", {"count": 2})
