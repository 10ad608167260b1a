"""Workers outlive their daemon; a daemon outlives its workers."""

import os
import signal
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import psutil
import pytest

from acode.clock import SystemClock
from tests.pool.checker import Tally, check, records
from tests.pool.conftest import PoolProject, eventually


def worker_of(project: PoolProject, task: str) -> psutil.Process:
    """The process that runs a task."""
    (found,) = [worker for worker in project.workers() if worker["currentTaskId"] == task]
    return psutil.Process(found["pid"])


def milliseconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp() * 1000


@pytest.mark.req("027-FR-072")
def test_tasks_outlive_the_daemon_with_their_workers(pool_project: PoolProject) -> None:
    pool_project.start(count=4)
    tasks = {name: pool_project.hold(name) for name in ("one", "two", "three")}
    before = {worker["id"]: worker["pid"] for worker in pool_project.workers()}
    where = {task: worker_of(pool_project, task).pid for task in tasks.values()}
    pool_project.kill_hard()
    pool_project.start(count=4)
    assert {worker["id"]: worker["pid"] for worker in pool_project.workers()} == before
    assert {task: worker_of(pool_project, task).pid for task in tasks.values()} == where
    for name in tasks:
        pool_project.let_go(name)
    assert pool_project.wait(*tasks.values()).code == 0
    for task in tasks.values():
        shown = pool_project.show(task)
        assert shown["attemptCount"] == 1
        assert [attempt["ending"] for attempt in shown["attempts"]] == ["exited"]


def test_an_end_without_a_daemon_keeps_its_time(pool_project: PoolProject) -> None:
    pool_project.start(count=1)
    task = pool_project.hold("it")
    worker = worker_of(pool_project, task)
    (command,) = worker.children()
    pool_project.kill_hard()
    pool_project.let_go("it")
    psutil.wait_procs([command], timeout=60)
    eventually(lambda: "exited" in spool_of(pool_project))
    ended_by = SystemClock().now()
    assert pool_project.show(task)["status"] == "running"
    pool_project.start(count=1)
    assert pool_project.wait(task).code == 0
    shown = pool_project.show(task)
    assert milliseconds(shown["completedAt"]) <= ended_by
    assert shown["attemptCount"] == 1
    assert pool_project.workers()[0]["pid"] == worker.pid


def spool_of(project: PoolProject) -> str:
    (spool,) = (project.agent / "run" / "spool").iterdir()
    return spool.read_bytes().decode(errors="replace")


def test_a_result_right_behind_the_greeting_is_not_lost(pool_project: PoolProject) -> None:
    """The daemon is slow to read: it gets the greeting and the result in one piece."""
    pool_project.prepare_fault("acode.sockets:connect:after", action="1.0")
    pool_project.start(count=1)
    task = pool_project.add(
        f"while [ ! -e {pool_project.fuse} ]; do sleep 0.01; done; "
        f"while [ -e {pool_project.fuse} ]; do sleep 0.01; done"
    )
    eventually(lambda: pool_project.status(task) == "running")
    pool_project.kill_hard()
    pool_project.arm()
    pool_project.start(count=1)
    assert pool_project.wait(task).code == 0
    assert pool_project.show(task)["attemptCount"] == 1
    eventually(lambda: pool_project.pool()["idleCount"] == 1)


@pytest.mark.parametrize("way", ["drain", "kill"])
def test_the_settings_say_what_running_attempts_do_without_a_daemon(
    pool_project: PoolProject, way: str
) -> None:
    pool_project.configure(workers={"onDaemonExit": way})
    pool_project.start(count=2)
    task = pool_project.hold("it")
    workers = [psutil.Process(pid) for pid in pool_project.worker_pids()]
    busy = worker_of(pool_project, task)
    (command,) = busy.children()
    pool_project.kill_hard()
    psutil.wait_procs([worker for worker in workers if worker != busy], timeout=60)
    if way == "drain":
        assert command.is_running()
        pool_project.let_go("it")
    _, alive = psutil.wait_procs([*workers, command], timeout=60)
    assert not alive
    pool_project.let_go("it")
    pool_project.start(count=1)
    assert pool_project.wait(task).code == 0
    endings = [attempt["ending"] for attempt in pool_project.show(task)["attempts"]]
    assert endings == (["exited"] if way == "drain" else ["released", "exited"])
    assert pool_project.show(task)["attemptCount"] == 1


def test_a_worker_without_a_daemon_leaves_after_a_while(pool_project: PoolProject) -> None:
    pool_project.env["PYTHONPATH"] = str(Path(__file__).parent / "faults")
    pool_project.env["PATIENCE_OF_ORPHANS"] = "0.5"
    pool_project.start(count=1)
    task = pool_project.hold("it")
    worker = worker_of(pool_project, task)
    pool_project.kill_hard()
    with pytest.raises(psutil.TimeoutExpired):
        worker.wait(1.5)  # it has a task
    pool_project.let_go("it")
    worker.wait(60)
    pool_project.start(count=1)
    assert pool_project.status(task) == "completed"


@pytest.mark.req("forge-25")
def test_a_killed_worker_takes_its_task_along_and_is_replaced(pool_project: PoolProject) -> None:
    pool_project.configure(
        workers={"process": {"restartDelayMs": 10}}, retry={"initialDelayMs": 10}
    )
    pool_project.start(count=1)
    task = pool_project.hold("it")
    worker = worker_of(pool_project, task)
    (command,) = worker.children()
    before = pool_project.workers()[0]
    worker.kill()
    psutil.wait_procs([worker, command], timeout=60)
    eventually(lambda: pool_project.pool()["busyCount"])
    after = pool_project.workers()[0]
    assert (after["id"], after["restarts"]) == (before["id"], 1)
    assert after["pid"] != before["pid"]
    pool_project.let_go("it")
    assert pool_project.wait(task).code == 0
    attempts = pool_project.show(task)["attempts"]
    assert [attempt["ending"] for attempt in attempts] == ["lost", "exited"]
    assert "SIGKILL" in pool_project.daemon_log()


@pytest.mark.req("forge-25")
def test_a_worker_that_hangs_is_replaced_and_its_task_tried_again(
    pool_project: PoolProject,
) -> None:
    pool_project.configure(
        workers={"heartbeatIntervalMs": 200, "process": {"restartDelayMs": 10}},
        retry={"initialDelayMs": 10},
    )
    pool_project.start(count=2)
    task = pool_project.hold("it")
    worker = worker_of(pool_project, task)
    worker.suspend()
    worker.wait(60)
    assert "hangs; it is replaced" in pool_project.daemon_log()
    pool_project.let_go("it")
    assert pool_project.wait(task).code == 0
    shown = pool_project.show(task)
    assert [attempt["ending"] for attempt in shown["attempts"]] == ["lost", "exited"]
    assert any("lost" in move["reason"] for move in shown["history"])
    eventually(lambda: pool_project.pool()["idleCount"] == 2)
    assert pool_project.daemon_log().count("hangs") == 1


def test_a_daemon_that_was_stopped_for_a_while_blames_nobody(pool_project: PoolProject) -> None:
    pool_project.configure(workers={"heartbeatIntervalMs": 100})
    pool_project.start(count=2)
    task = pool_project.hold("it")
    pids = pool_project.worker_pids()
    daemon = pool_project.daemon
    daemon.suspend()
    before = SystemClock().now()
    eventually(lambda: SystemClock().now() - before > 1_000)  # ten heartbeats
    daemon.resume()
    eventually(lambda: last_heartbeat(pool_project) > before + 1_500)
    assert pool_project.worker_pids() == pids
    pool_project.let_go("it")
    assert pool_project.wait(task).code == 0
    assert pool_project.show(task)["attemptCount"] == 1


def last_heartbeat(project: PoolProject) -> float:
    return min(milliseconds(worker["lastHeartbeat"]) for worker in project.workers())


def test_a_zygote_that_is_killed_is_missed_by_nobody(
    pool_project: PoolProject, tmp_path: Path
) -> None:
    """Its workers go on, new ones are forked from another, and no zombie is left."""
    pool_project.configure(
        workers={"process": {"restartDelayMs": 10}}, retry={"initialDelayMs": 10}
    )
    tally = Tally(tmp_path / "tally")
    pool_project.start(count=2)
    task = pool_project.hold("it")
    zygote = pool_project.zygote
    zygote.kill()
    zygote.wait(60)
    worker = worker_of(pool_project, task)
    # Its parent is the daemon now, and so is that of whatever it leaves.
    worker.kill()
    worker.wait(60)
    tasks = pool_project.add_all([{"command": tally.command()}] * 4)
    pool_project.let_go("it")
    assert pool_project.wait(task, *tasks).code == 0
    eventually(lambda: pool_project.pool()["idleCount"] == 2)
    eventually(lambda: not pool_project.zombies())
    assert pool_project.zygote.pid != zygote.pid
    for record in records(pool_project.agent, [task, *tasks]):
        check(record)


@pytest.mark.req("027a-NFR-008")
@pytest.mark.parametrize("first", ["tasks", "pool"])
def test_a_machine_that_shuts_down_loses_no_task(pool_project: PoolProject, first: str) -> None:
    """It tells every process to end, in whatever order; who cannot wait is started again later."""
    pool_project.start(count=3)
    tasks = [pool_project.hold(name) for name in ("one", "two", "three")]
    waiting = pool_project.add("true")
    everybody = sorted(pool_project.processes(), key=lambda process: process.pid)
    for process in everybody if first == "pool" else reversed(everybody):
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _, alive = psutil.wait_procs(everybody, timeout=60)
    assert not alive
    assert {pool_project.status(task) for task in tasks} == {"pending"}
    for name in ("one", "two", "three"):
        pool_project.let_go(name)
    pool_project.start(count=3)
    assert pool_project.wait(*tasks, waiting).code == 0
    assert {pool_project.show(task)["attemptCount"] for task in tasks} == {1}


def test_a_worker_that_is_asked_to_end_releases_its_task(pool_project: PoolProject) -> None:
    pool_project.configure(workers={"process": {"restartDelayMs": 10}})
    pool_project.start(count=1)
    task = pool_project.hold("it")
    worker = worker_of(pool_project, task)
    os.kill(worker.pid, signal.SIGTERM)
    worker.wait(60)
    pool_project.let_go("it")
    assert pool_project.wait(task).code == 0
    shown = pool_project.show(task)
    assert shown["attemptCount"] == 1
    assert {attempt["ending"] for attempt in shown["attempts"][:-1]} == {"released"}
    assert "exit code 143" in pool_project.daemon_log()


def test_a_smaller_pool_than_the_one_that_was_left_is_no_failure(pool_project: PoolProject) -> None:
    pool_project.start(count=3)
    pool_project.kill_hard()
    pool_project.start(count=1)
    eventually(lambda: len(pool_project.workers()) == 1)
    task = pool_project.add("true")
    assert pool_project.wait(task).code == 0
