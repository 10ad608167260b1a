"""The governance file and the feed of a real pool."""

import json
import os
import signal
from typing import Any

import pytest

from acode.observe.feed import entries
from tests.pool.conftest import PoolProject, eventually

FIELDS = {
    "status", "totalWorkers", "activeWorkers", "idleWorkers", "errorWorkers",
    "tasksQueued", "tasksCompleted24h", "avgTaskDurationMs", "workers",
}  # fmt: skip


def state(project: PoolProject) -> Any:
    path = project.agent / "governance.json"
    return json.loads(path.read_text())["workerPool"] if path.exists() else {}


@pytest.mark.req("forge-30")
def test_the_governance_file_follows_the_pool(pool_project: PoolProject) -> None:
    (pool_project.agent / "governance.json").write_text('{"theirs": 1}')
    pool_project.start(count=2)
    pool_project.wait(*(pool_project.add("true") for _ in range(3)))
    held = pool_project.hold("one")
    waiting = pool_project.add("true", "--after", held)
    eventually(lambda: state(pool_project).get("activeWorkers") == 1)
    found = state(pool_project)
    assert set(found) == FIELDS
    assert found["status"] == "running"
    assert (found["totalWorkers"], found["idleWorkers"], found["errorWorkers"]) == (2, 1, 0)
    assert (found["tasksQueued"], found["tasksCompleted24h"]) == (1, 3)
    assert found["avgTaskDurationMs"] >= 0
    assert [each["currentTaskId"] for each in found["workers"]].count(held) == 1
    pool_project.let_go("one")
    pool_project.wait(waiting)
    pool_project.stop()
    assert state(pool_project)["status"] == "stopped"
    assert json.loads((pool_project.agent / "governance.json").read_text())["theirs"] == 1


def test_the_last_day_is_known_to_the_next_daemon(pool_project: PoolProject) -> None:
    pool_project.start(count=1)
    pool_project.wait(*(pool_project.add("true") for _ in range(3)))
    pool_project.stop()
    pool_project.start(count=1)
    eventually(lambda: state(pool_project).get("status") == "running")
    pool_project.wait(pool_project.add("true"))
    eventually(lambda: state(pool_project)["tasksCompleted24h"] == 4)


def test_governance_can_be_off_or_elsewhere(pool_project: PoolProject) -> None:
    pool_project.configure(governance={"path": "docs/state.json"})
    pool_project.start(count=1)
    pool_project.stop()
    assert json.loads((pool_project.root / "docs" / "state.json").read_text())
    pool_project.configure(governance={"enabled": False})
    pool_project.start(count=1)
    pool_project.stop()
    assert not (pool_project.agent / "governance.json").exists()


@pytest.mark.req("027-FR-022", "027-AC-012")
def test_the_feed_tells_what_workers_do(pool_project: PoolProject) -> None:
    path = str(pool_project.agent / "run" / "feed" / "events.jsonl")

    def told(type_: str) -> list[Any]:
        return [entry.payload for entry, _ in entries(path) if entry.type == type_]

    pool_project.start(count=1)
    victim = pool_project.workers()[0]
    eventually(lambda: told("worker.started"))
    pool_project.kill_hard()
    pool_project.start(count=1)
    os.kill(victim["pid"], signal.SIGKILL)
    eventually(lambda: told("worker.crashed"))
    pool_project.stop()
    assert [each["adopted"] for each in told("worker.started")][:2] == [False, True]
    assert told("worker.crashed")[0]["workerId"] == victim["id"]
    assert told("worker.stopped")
    found = [entry.seq for entry, _ in entries(path)]
    assert found == sorted(set(found)), "numbers only grow, over the lives of daemons too"


@pytest.mark.req("027-FR-023")
def test_started_failed_and_stopped_workers_are_told(pool_project: PoolProject) -> None:
    pool_project.configure(workers={"process": {"maxRestarts": 0, "restartDelayMs": 1}})
    pool_project.start(count=2)
    victim, other = pool_project.workers()
    os.kill(victim["pid"], signal.SIGKILL)
    path = str(pool_project.agent / "run" / "feed" / "events.jsonl")

    def told(type_: str) -> list[str]:
        return [e.payload["workerId"] for e, _ in entries(path) if e.type == type_]

    eventually(lambda: told("worker.failed"))
    pool_project.stop()
    assert told("worker.failed") == [victim["id"]]
    assert {victim["id"], other["id"]} <= set(told("worker.started"))
    assert other["id"] in told("worker.stopped")
