"""The size of the pool: by hand, by itself, large, and over and over again."""

import os
from pathlib import Path

import pytest

from tests.pool.checker import check, records
from tests.pool.conftest import PoolProject, eventually

ROUNDS = int(os.environ.get("ACODE_TEST_ROUNDS", "10"))
"""How often a pool is started and stopped; fifty where time does not matter."""


def test_scaling_while_busy_disturbs_no_task(pool_project: PoolProject) -> None:
    pool_project.start(count=2)
    tasks = pool_project.add_all([{"command": "sleep 0.02"}] * 60)
    for count in (5, 1, 4, 2):
        assert pool_project.run("worker", "scale", str(count)).code == 0
    assert pool_project.wait(*tasks).code == 0
    eventually(lambda: len(pool_project.workers()) == 2)
    assert not pool_project.zombies()
    for record in records(pool_project.agent, tasks):
        check(record)
        assert record.task.attempt_count == 1


def test_the_pool_grows_when_busy_and_shrinks_when_idle(pool_project: PoolProject) -> None:
    pool_project.configure(
        autoscale={"min": 1, "max": 4, "initial": 1, "intervalMs": 1000, "cooldownMs": 0}
    )
    pool_project.start("--autoscale", count=None)
    tasks = [pool_project.hold("one")]
    eventually(lambda: pool_project.pool()["activeCount"] == 3)
    tasks += [pool_project.hold(name) for name in ("two", "three")]
    eventually(lambda: pool_project.pool()["activeCount"] == 4)
    for name in ("one", "two", "three"):
        pool_project.let_go(name)
    assert pool_project.wait(*tasks).code == 0
    eventually(lambda: pool_project.pool()["activeCount"] == 1)
    log = pool_project.daemon_log()
    assert "pool scaled from 1 to 3" in log
    assert "pool scaled from 3 to 4" in log
    assert "pool scaled from 2 to 1" in log


@pytest.mark.req("027-NFR-005", "027-NFR-006", "027-FR-036", "027-FR-049")
def test_ten_thousand_tasks_over_a_hundred_workers(
    pool_project: PoolProject, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    pool_project.configure(
        workers={"max": 100, "poolLimits": {"concurrentTasks": 100}},
        environment={"set": {"RAN_ON": str(lines)}},
    )
    pool_project.start(count=100)
    pool = pool_project.pool()
    assert (pool["idleCount"], len({worker["pid"] for worker in pool["workers"]})) == (100, 100)
    tasks = pool_project.add_all([{"command": "echo $ACODE_WORKER_ID >> $RAN_ON"}] * 10_000)
    eventually(lambda: pool_project.pool()["pendingTasks"] == 0, 300)
    eventually(lambda: pool_project.pool()["idleCount"] == 100)
    ran_on = lines.read_text().splitlines()
    assert (len(ran_on), len(set(ran_on))) == (10_000, 100)
    for record in records(pool_project.agent, tasks):
        check(record)
        assert (record.task.status, record.task.attempt_count) == ("completed", 1)
    assert not pool_project.zombies()
    pool_project.stop()
    assert not pool_project.processes()


@pytest.mark.req("027-NFR-010", "027-FR-073", "027a-FR-039")
def test_starting_and_stopping_over_and_over_leaves_nothing(pool_project: PoolProject) -> None:
    for number in range(ROUNDS):
        pool_project.start(count=2)
        task = pool_project.add("touch $TMPDIR/file file; sleep 0.01 & true")
        assert pool_project.wait(task).code == 0
        pool_project.stop(*(["--force"] if number % 2 else []))
        assert not pool_project.processes()
        assert not pool_project.leftovers()
        assert not list((pool_project.agent / "run" / "checkpoints").iterdir())
