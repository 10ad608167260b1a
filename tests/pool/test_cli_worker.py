"""`acode worker start|status|list|scale|stop`, with real daemons and real workers."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from acode.ids import is_prefix
from tests.cli.conftest import problem_of
from tests.cli.test_startup import HEAVY, PROBE
from tests.pool.conftest import PATIENCE, PoolProject, eventually, is_gone, is_zygote


@pytest.mark.req("027-FR-002", "027-FR-012", "027-AC-001")
def test_start_returns_when_every_worker_is_idle(pool_project: PoolProject) -> None:
    done = pool_project.start(count=3)
    *lines, dashboard = done.out.splitlines()
    assert lines == [
        "Starting worker pool with 3 workers...",
        "✓ Worker pool started",
        "  Workers: 3",
        "  Mode: process",
    ]
    assert dashboard.startswith("  Dashboard: http://127.0.0.1:")
    assert [worker["status"] for worker in pool_project.workers()] == ["idle"] * 3


@pytest.mark.req("027-FR-010", "027-FR-011")
def test_every_worker_has_a_ulid_of_its_own(pool_project: PoolProject) -> None:
    pool_project.start(count=3)
    ids = [worker["id"] for worker in pool_project.workers()]
    assert len(set(ids)) == 3
    assert all(len(each) == 26 and is_prefix(each) for each in ids)


@pytest.mark.req("027a-FR-001", "027a-FR-002", "027a-AC-001")
def test_workers_are_processes_that_the_pool_has_spawned(pool_project: PoolProject) -> None:
    pool_project.start(count=2)
    (zygote,) = [child for child in pool_project.daemon.children() if is_zygote(child)]
    assert {child.pid for child in zygote.children()} == set(pool_project.worker_pids())


def test_the_daemon_and_each_worker_lead_a_session_of_their_own(pool_project: PoolProject) -> None:
    pool_project.start(count=2)
    pids = [pool_project.daemon.pid, *pool_project.worker_pids()]
    assert [os.getsid(pid) for pid in pids] == pids


@pytest.mark.req("027-FR-003", "027-FR-013", "027-AC-002", "027a-AC-002")
def test_stop_returns_when_daemon_and_workers_are_gone(pool_project: PoolProject) -> None:
    pool_project.start()
    processes = [pool_project.daemon, *map(psutil.Process, pool_project.worker_pids())]
    assert pool_project.stop().out.endswith("✓ Worker pool stopped\n")
    assert all(is_gone(process) for process in processes)
    assert pool_project.workers() == []
    assert pool_project.leftovers() == []


@pytest.mark.req("027-FR-004")
def test_stop_lets_a_running_task_finish(pool_project: PoolProject) -> None:
    pool_project.start()
    task, waiting = pool_project.hold("a"), pool_project.popen("worker", "stop")
    eventually(lambda: "stopping" in pool_project.daemon_log())
    assert pool_project.status(task) == "running"
    assert waiting.poll() is None
    pool_project.let_go("a")
    _, err = waiting.communicate(timeout=PATIENCE)
    assert (waiting.returncode, err) == (0, "")
    assert pool_project.status(task) == "completed"


@pytest.mark.req("027-FR-005")
def test_stop_by_force_releases_the_running_task(pool_project: PoolProject) -> None:
    pool_project.start()
    task = pool_project.hold("a", stubborn=True)
    pool_project.stop("--force")
    shown = pool_project.show(task)
    assert (shown["status"], shown["attemptCount"]) == ("pending", 0)
    assert shown["attempts"][0]["ending"] == "released"
    pool_project.let_go("a")
    pool_project.start()
    assert pool_project.wait(task).code == 0
    assert pool_project.show(task)["attemptCount"] == 1


def test_a_second_stop_does_not_hurry_the_first(pool_project: PoolProject) -> None:
    pool_project.start()
    task = pool_project.hold("a")
    stops = [pool_project.popen("worker", "stop") for _ in range(2)]
    eventually(lambda: "stopping" in pool_project.daemon_log())
    pool_project.let_go("a")
    for stop in stops:
        stop.communicate(timeout=PATIENCE)
    assert [stop.returncode for stop in stops] == [0, 0]
    assert pool_project.show(task)["attempts"][0]["ending"] == "exited"


def test_an_impatient_stop_leaves_the_pool_draining(pool_project: PoolProject) -> None:
    pool_project.start()
    task, daemon = pool_project.hold("a"), pool_project.daemon
    stop = pool_project.popen("worker", "stop")
    eventually(lambda: "stopping" in pool_project.daemon_log())
    stop.send_signal(signal.SIGINT)
    _, err = stop.communicate(timeout=PATIENCE)
    assert stop.returncode == 130
    assert "goes on stopping" in err
    assert problem_of(pool_project.run("worker", "scale", "4"), 1, "WORKER-002")
    pool_project.let_go("a")
    daemon.wait(PATIENCE)
    assert pool_project.status(task) == "completed"


def test_stopping_what_does_not_run_is_fine(pool_project: PoolProject) -> None:
    assert pool_project.run("worker", "stop") == (0, "no worker pool is running\n", "")
    pool_project.start()
    pool_project.stop()
    assert pool_project.run("worker", "stop", "--force").code == 0
    assert pool_project.ask("worker", "stop")["stopped"] is False


@pytest.mark.req("027-ERR-002")
def test_scaling_what_does_not_run_is_refused(pool_project: PoolProject) -> None:
    problem_of(pool_project.run("worker", "scale", "2"), 1, "WORKER-002")


def test_a_second_start_says_that_the_pool_runs(pool_project: PoolProject) -> None:
    pool_project.start()
    before = pool_project.workers()
    assert "runs already" in problem_of(pool_project.run("worker", "start"), 1, "WORKER-007")
    assert [worker["id"] for worker in pool_project.workers()] == [each["id"] for each in before]


def test_of_many_starts_at_once_one_wins(pool_project: PoolProject) -> None:
    starts = [pool_project.popen("worker", "start", "--count", "1") for _ in range(4)]
    for start in starts:
        start.communicate(timeout=PATIENCE)
    assert sorted(start.returncode for start in starts) == [0, 1, 1, 1]
    assert len(pool_project.workers()) == 1


@pytest.mark.req("027-FR-014", "027-FR-015", "027-FR-025")
def test_status_counts_workers_and_tasks(pool_project: PoolProject) -> None:
    pool_project.start(count=2)
    task = pool_project.hold("a")
    pool_project.run("queue", "pause")
    pool_project.add("true")
    pool = pool_project.pool()
    counts = ("activeCount", "idleCount", "busyCount", "pendingTasks", "runningTasks")
    assert [pool[name] for name in counts] == [2, 1, 1, 1, 1]
    assert [each["status"] for each in pool["workers"] if each["currentTaskId"] == task] == ["busy"]
    told = pool_project.run("worker", "status").out
    assert told.startswith("Worker Pool Status\n==================\n  Running: yes\n")
    assert f"busy (task {task})" in told
    assert "  Active:  2\n    Idle:  1\n    Busy:  1\n" in told


def test_status_without_a_pool_tells_of_the_queue(pool_project: PoolProject) -> None:
    pool_project.add("true")
    pool = pool_project.pool()
    assert (pool["isRunning"], pool["pendingTasks"], pool["workers"]) == (False, 1, [])
    assert "  Running: no\n" in pool_project.run("worker", "status").out
    assert pool_project.run("worker", "list") == (0, "", "no worker pool is running\n")


def test_status_has_the_same_keys_with_and_without_a_pool(pool_project: PoolProject) -> None:
    before = list(pool_project.pool())
    pool_project.start()
    assert list(pool_project.pool()) == before


def test_status_can_be_watched(pool_project: PoolProject) -> None:
    pool_project.start()
    watch = pool_project.popen("worker", "status", "--watch", "--json")
    assert watch.stdout
    looks = [json.loads(watch.stdout.readline()) for _ in range(2)]
    watch.send_signal(signal.SIGINT)
    watch.communicate(timeout=PATIENCE)
    assert watch.returncode == 130
    assert [look["isRunning"] for look in looks] == [True, True]


def test_list_shows_a_line_for_each_worker(pool_project: PoolProject) -> None:
    pool_project.start(count=2)
    ids = [worker["id"] for worker in pool_project.workers()]
    _, *rows = pool_project.run("worker", "list").out.splitlines()
    assert [row.split()[0] for row in rows] == [f"worker-{each}" for each in ids]
    assert pool_project.run("worker", "list", "--quiet").out.split() == [
        f"worker-{each}" for each in ids
    ]


@pytest.mark.parametrize("line", ["worker status", "worker status --json", "worker list"])
@pytest.mark.parametrize("runs", [True, False], ids=["running", "stopped"])
def test_a_look_at_the_pool_imports_nothing_heavy(
    pool_project: PoolProject, line: str, runs: bool
) -> None:
    if runs:
        pool_project.start(count=1)
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *line.split()],
        cwd=pool_project.root,
        env=pool_project.env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert HEAVY & set(done.stderr.split()) == set()


@pytest.mark.req("027-FR-017", "027-FR-018", "027-FR-019", "027-FR-020", "027-AC-008")
def test_scaling_adds_workers_and_takes_idle_ones_first(pool_project: PoolProject) -> None:
    pool_project.start(count=1)
    pool_project.hold("a")
    (busy,) = pool_project.workers()
    assert pool_project.run("worker", "scale", "3").out == "Worker pool scaled to 3 workers\n"
    assert pool_project.pool()["idleCount"] == 2
    assert pool_project.ask("worker", "scale", "1") == {"count": 1, "message": None}
    (left,) = eventually(lambda: len(now := pool_project.workers()) == 1 and now)
    assert (left["id"], left["status"]) == (busy["id"], "busy")
    pool_project.let_go("a")


@pytest.mark.req("027-FR-021")
def test_a_busy_worker_that_has_to_go_finishes_first(pool_project: PoolProject) -> None:
    pool_project.start(count=2)
    tasks = [pool_project.hold("a"), pool_project.hold("b")]
    pool_project.run("worker", "scale", "1")
    later = pool_project.add("true")
    pool_project.let_go("a")
    pool_project.let_go("b")
    assert pool_project.wait(*tasks, later).code == 0
    assert [pool_project.show(task)["attemptCount"] for task in tasks] == [1, 1]
    eventually(lambda: len(pool_project.workers()) == 1)


@pytest.mark.req("027-FR-008", "027-FR-009")
def test_the_number_of_workers_is_kept_within_bounds(pool_project: PoolProject) -> None:
    pool_project.configure(workers={"max": 2})
    done = pool_project.start(count=50)
    assert "2 instead of 50: workers.max is 2" in done.err
    assert len(pool_project.workers()) == 2
    assert "2 is the maximum" in pool_project.run("worker", "scale", "3").err
    assert "1 is the minimum" in pool_project.run("worker", "scale", "0").err
    eventually(lambda: len(pool_project.workers()) == 1)
    pool_project.stop()
    assert "1 instead of -3: workers.min is 1" in pool_project.start(count=-3).err


@pytest.mark.req("027-FR-006", "027-FR-007")
def test_the_number_of_workers_comes_from_the_settings(pool_project: PoolProject) -> None:
    pool_project.start(count=None)
    assert len(pool_project.workers()) == os.cpu_count()
    pool_project.stop()
    pool_project.configure(workers={"count": 3})
    pool_project.start(count=None)
    assert len(pool_project.workers()) == 3


def test_an_autoscaled_pool_begins_with_its_initial_size(pool_project: PoolProject) -> None:
    pool_project.configure(autoscale={"initial": 3})
    assert "with 3 workers" in pool_project.start("--autoscale", count=None).out
    assert len(pool_project.workers()) == 3


def test_settings_of_a_named_file_reach_the_daemon(pool_project: PoolProject) -> None:
    (pool_project.root / "other.yml").write_text("workers: {count: 3}", encoding="utf-8")
    pool_project.start("--config", "other.yml", count=None)
    assert len(pool_project.workers()) == 3


def test_start_answers_in_json(pool_project: PoolProject) -> None:
    pool = pool_project.ask("worker", "start", "--count", "2")
    assert (pool["isRunning"], pool["idleCount"]) == (True, 2)


@pytest.mark.req("027-ERR-003")
def test_workers_that_cannot_start_are_told_with_the_reason(pool_project: PoolProject) -> None:
    obstacle = pool_project.agent / "worktrees"
    obstacle.write_text("a file where a directory should be")
    done = pool_project.run("worker", "start", "--count", "2")
    assert "no worker could be started" in problem_of(done, 1, "WORKER-003")
    eventually(lambda: not pool_project.processes())
    obstacle.unlink()
    pool_project.start()


def test_wrong_settings_stop_the_start(pool_project: PoolProject) -> None:
    pool_project.configure(workers={"cuont": 3})
    problem_of(pool_project.run("worker", "start"), 2, "CONFIG")


@pytest.mark.req("027a-FR-052", "027a-FR-053", "027a-FR-055")
def test_a_missing_tool_is_named_before_anything_starts(pool_project: PoolProject) -> None:
    pool_project.configure(tools={"required": ["git", "frobnicate"]})
    done = pool_project.run("worker", "start")
    assert "frobnicate is required" in problem_of(done, 3, "TOOL_NOT_FOUND")
    assert not (pool_project.agent / "logs").exists()


@pytest.mark.req("027a-FR-048", "027a-FR-050", "027a-FR-051", "027a-FR-054")
@pytest.mark.parametrize(
    "tool", ["frobnicate", pytest.param("dotnet", marks=pytest.mark.req("027a-FR-049"))]
)
def test_tools_are_there_for_tasks_and_their_versions_in_the_log(
    pool_project: PoolProject, tool: str
) -> None:
    """Scripts stand in for both tools."""
    tools = pool_project.root / "tools"
    tools.mkdir()
    (tools / tool).write_text(f"#!/bin/sh\necho {tool} 7.3\n")
    (tools / tool).chmod(0o755)
    pool_project.env["PATH"] = f"{tools}:{pool_project.env['PATH']}"
    pool_project.configure(tools={"required": ["git", tool]})
    pool_project.start()
    eventually(lambda: f"{tool} 7.3" in pool_project.daemon_log())
    assert "git version " in pool_project.daemon_log()
    task = pool_project.add(f"{tool} --version && git --version")
    pool_project.wait(task)
    assert pool_project.output(task).startswith(f"{tool} 7.3\ngit version ")


@pytest.mark.req("027-FR-029", "027-ERR-006", "027b-FR-003", "027b-NFR-008", "027b-AC-008")
def test_containers_are_refused_or_replaced_as_the_settings_say(pool_project: PoolProject) -> None:
    pool_project.env["DOCKER_HOST"] = "unix:///nowhere/docker.sock"
    docker = {"fallbackToLocal": False}
    pool_project.configure(workers={"mode": "docker", "docker": docker})
    problem_of(pool_project.run("worker", "start"), 1, "WORKER-006")
    pool_project.configure()
    done = pool_project.start("--mode", "docker", "--keep-containers")
    assert "acode: WORKER-006: " in done.err
    assert pool_project.pool()["mode"] == "process"
    task = pool_project.add("echo hello", "--mode", "docker")
    assert pool_project.wait(task).code == 0
    assert pool_project.output(task) == "hello"
    assert f"task {task} runs as a process" in pool_project.daemon_log()


@pytest.mark.req("027-FR-028")
def test_the_mode_is_process_unless_told_otherwise(pool_project: PoolProject) -> None:
    pool_project.start(count=1)
    assert pool_project.pool()["mode"] == "process"
    assert [worker["mode"] for worker in pool_project.workers()] == ["process"]


def test_what_a_dead_daemon_left_is_no_obstacle(pool_project: PoolProject) -> None:
    pool_project.start()
    task = pool_project.hold("a")
    before = pool_project.workers()
    pool_project.kill_hard()
    assert pool_project.pool()["isRunning"] is False
    assert "goes on by itself" in pool_project.run("task", "why", task).out
    pool_project.start()
    pool_project.let_go("a")
    assert pool_project.wait(task).code == 0
    assert {worker["pid"] for worker in pool_project.workers()} == {each["pid"] for each in before}
    recovery = pool_project.ask("queue", "status")["recovery"]
    assert recovery["continued"] == [task]
    assert set(recovery["adopted"]) == {each["id"] for each in before}
    assert "1 task went on all the while" in pool_project.run("queue", "recover").out


def test_workers_without_a_daemon_end_by_force_only(pool_project: PoolProject) -> None:
    pool_project.start(count=1)
    task, workers = pool_project.hold("a", stubborn=True), pool_project.worker_pids()
    pool_project.kill_hard()
    done = pool_project.run("worker", "stop")
    assert (done.code, done.out) == (0, "no worker pool is running\n")
    assert "acode worker stop --force ends them" in done.err
    assert not any(is_gone(psutil.Process(pid)) for pid in workers)
    assert "1 worker without a daemon stopped" in pool_project.stop("--force").out
    assert pool_project.processes() == []
    pool_project.let_go("a")
    pool_project.start(count=1)
    assert pool_project.wait(task).code == 0
    assert pool_project.show(task)["attemptCount"] == 1


@pytest.mark.req("027-ERR-004")
def test_a_daemon_that_hangs_is_told_of_and_ended_by_force(pool_project: PoolProject) -> None:
    pool_project.start(count=1)
    task, daemon = pool_project.hold("a", stubborn=True), pool_project.daemon
    daemon.suspend()
    problem_of(pool_project.run("worker", "stop"), 1, "WORKER-004")
    assert not is_gone(daemon)
    pool_project.abandoned = True
    assert "it is killed" in pool_project.stop("--force").err
    assert is_gone(daemon)
    assert pool_project.processes() == []
    pool_project.let_go("a")
    pool_project.start(count=1)
    assert pool_project.wait(task).code == 0
    assert pool_project.show(task)["attemptCount"] == 1


@pytest.mark.parametrize("name", ["x" * 120, "mit Leerzeichen und 'Ümläuten' \"✓\""])
def test_any_project_path_will_do(tmp_path: Path, name: str) -> None:
    project = PoolProject(tmp_path / name / "project")
    project.start()
    task = project.add("pwd")
    assert project.wait(task).code == 0
    assert name in project.output(task)
    project.stop()
    project.close()


@pytest.fixture
def foreground(pool_project: PoolProject) -> Iterator["subprocess.Popen[str]"]:
    process = pool_project.popen("worker", "start", "--count", "1", "--foreground")
    eventually(lambda: pool_project.pool()["idleCount"])
    yield process
    process.kill()
    process.communicate()


def test_in_the_foreground_it_ends_by_a_signal_with_0(
    pool_project: PoolProject, foreground: "subprocess.Popen[str]"
) -> None:
    assert pool_project.daemon.pid == foreground.pid
    task = pool_project.add("exit 3")
    pool_project.wait(task)
    foreground.terminate()
    out, err = foreground.communicate(timeout=PATIENCE)
    assert foreground.returncode == 0
    assert out == "Starting worker pool with 1 worker...\n"
    assert f"info: task {task} attempt 1" in err


def test_the_daemon_keeps_nothing_that_its_starter_had_open(pool_project: PoolProject) -> None:
    reader, writer = os.pipe()
    try:
        pool = pool_project.popen("worker", "start", pass_fds=[writer])
        os.close(writer)
        pool.communicate(timeout=PATIENCE)
        assert pool.returncode == 0
        os.set_blocking(reader, False)
        assert os.read(reader, 1) == b""
    finally:
        os.close(reader)


SLOW_POLL = {"pollIntervalMs": 600_000, "idleBackoffMaxMs": 600_000}
"""Whatever happens within a test's patience happens because the bell was rung."""


def test_a_new_task_wakes_an_idle_pool(pool_project: PoolProject) -> None:
    pool_project.configure(workers=SLOW_POLL)
    pool_project.start()
    for _ in range(3):
        assert pool_project.wait(pool_project.add("true")).code == 0


@pytest.mark.req("027-FR-045", "027-FR-046")
@pytest.mark.parametrize("flags", [[], ["--force"]], ids=["gently", "by-force"])
def test_a_running_task_can_be_cancelled(pool_project: PoolProject, flags: list[str]) -> None:
    pool_project.configure(workers=SLOW_POLL)
    pool_project.start()
    task = pool_project.hold("a")
    assert pool_project.run("task", "cancel", task, *flags).code == 0
    pool_project.wait(task)
    shown = pool_project.show(task)
    assert (shown["status"], shown["attempts"][0]["ending"]) == ("cancelled", "cancelled")
    assert pool_project.run("task", "cancel", task).code == 1


def test_retrying_and_resuming_wake_an_idle_pool(pool_project: PoolProject) -> None:
    pool_project.configure(workers=SLOW_POLL)
    pool_project.start()
    failing = pool_project.add("exit 1")
    assert pool_project.wait(failing).code == 1
    pool_project.run("queue", "pause")
    waiting = pool_project.add("true")
    assert "2 of 2 workers wait for work" in pool_project.run("task", "why", waiting).out
    pool_project.run("queue", "resume")
    assert pool_project.wait(waiting).code == 0
    pool_project.run("dlq", "retry", failing)
    eventually(lambda: len(pool_project.show(failing)["attempts"]) == 2)
    pool_project.wait(failing)
    pool_project.run("task", "retry", failing)
    eventually(lambda: len(pool_project.show(failing)["attempts"]) == 3)


def environment(project: PoolProject, *flags: str) -> dict[str, str]:
    """What a task sees."""
    task = project.add("env -0 | tr '\\n\\0' ' \\n'; echo DONE=$(pwd)", *flags)
    assert project.wait(task).code == 0
    return {"id": task} | dict(
        line.split("=", 1) for line in project.output(task).splitlines() if "=" in line
    )


@pytest.mark.req("027a-FR-003", "027a-FR-004", "027a-FR-045", "027a-FR-046", "027a-FR-047")
@pytest.mark.req("027a-FR-044", "027a-AC-006")
def test_a_task_knows_what_it_is(pool_project: PoolProject) -> None:
    pool_project.start(count=1)
    (worker,) = pool_project.workers()
    env = environment(pool_project)
    assert env["ACODE_TASK_ID"] == env["id"]
    assert env["ACODE_WORKER_ID"] == worker["id"]
    assert env["ACODE_WORKTREE_PATH"] == env["DONE"]
    assert env["ACODE_CONFIG_PATH"] == str(pool_project.agent / "config.yml")
    assert env["ACODE_ATTEMPT"] == "1"
    assert {"ACODE_ATTEMPT_TOKEN", "ACODE_ARTIFACTS_DIR", "ACODE_CHECKPOINT"} <= set(env)


@pytest.mark.needs("cgroups v1")
@pytest.mark.req("forge-11")
def test_the_context_of_a_worker(pool_project: PoolProject) -> None:
    limits = {"memoryMb": 321, "cpuPercent": 77, "maxProcesses": 44, "maxOpenFiles": 123}
    pool_project.configure(workers={"limits": limits, "resources": {"overLimitAction": "kill"}})
    pool_project.start(count=1)
    (worker,) = pool_project.workers()
    tell = "echo $ACODE_WORKER_ID; pwd; echo $COLOUR; ulimit -n; echo oh >&2"
    first = pool_project.add(tell, "--env", "COLOUR=blue")
    hog = pool_project.add("dd if=/dev/zero of=/dev/null bs=900M count=1")
    pool_project.wait(first, hog)
    told = pool_project.output(first).splitlines()
    assert (told[0], told[2], told[3]) == (worker["id"], "blue", "123")
    assert told[1].startswith(f"{pool_project.agent}/worktrees/{worker['id']}/")
    assert "memoryMb, its limit is 321" in pool_project.show(hog)["error"]["message"]
    # What it ran, in order, with both streams.
    lines = pool_project.run("worker", "logs", worker["id"], "--format", "json").out.splitlines()
    seen = [json.loads(line) for line in lines]
    assert list(dict.fromkeys(line["taskId"] for line in seen if line["taskId"])) == [first, hog]
    assert {"stdout", "stderr"} <= {line["stream"] for line in seen if line["taskId"] == first}


@pytest.mark.req("forge-10")
def test_the_life_of_a_worker(pool_project: PoolProject) -> None:
    process = {"restartDelayMs": 10, "killTimeoutSeconds": 1}
    pool_project.configure(workers={"process": process, "heartbeatIntervalMs": 50})
    pool_project.start(count=1)
    (spawned,) = pool_project.workers()
    assert pool_project.wait(pool_project.add("true")).code == 0
    aborted = pool_project.hold("aborted")
    assert pool_project.run("task", "cancel", aborted).code == 0
    eventually(lambda: pool_project.status(aborted) == "cancelled")
    eventually(lambda: pool_project.workers()[0]["lastHeartbeat"] > spawned["lastHeartbeat"])
    os.kill(spawned["pid"], signal.SIGKILL)
    eventually(lambda: pool_project.workers()[0]["restarts"] == 1)
    again = eventually(lambda: [w for w in pool_project.workers() if w["status"] == "idle"])
    assert again[0]["pid"] != spawned["pid"]
    assert pool_project.wait(pool_project.add("true")).code == 0
    pool_project.stop()
    assert not psutil.pid_exists(again[0]["pid"])


@pytest.mark.req("027a-FR-005", "027a-FR-006")
def test_a_task_inherits_the_environment_but_no_secrets(pool_project: PoolProject) -> None:
    pool_project.env |= {
        "COLOUR": "blue",
        "MONKEY": "howler",
        "GITHUB_TOKEN": "s",
        "my_api_key": "s",
        "PGPASSWORD": "s",
        "AWS_REGION": "s",
        "DEPLOY_TOKEN": "wanted",
        "ACODE_TASKS__TIMEOUTSECONDS": "100",
    }
    pool_project.configure(environment={"pass": ["DEPLOY_TOKEN"]})
    pool_project.start(count=1)
    env = environment(pool_project, "--env", "MINE=1")
    wanted = {"COLOUR": "blue", "MONKEY": "howler", "DEPLOY_TOKEN": "wanted", "MINE": "1"}
    assert wanted.items() <= env.items()
    hidden = {"GITHUB_TOKEN", "my_api_key", "PGPASSWORD", "AWS_REGION"}
    assert not (hidden | {"ACODE_TASKS__TIMEOUTSECONDS"}) & set(env)


@pytest.mark.req("027-FR-047", "027-FR-048", "027-AC-011", "027a-FR-037")
def test_a_tasks_own_directories_are_removed_afterwards(pool_project: PoolProject) -> None:
    pool_project.start(count=1)
    task = pool_project.add('echo "$TMPDIR"; pwd; echo x > "$TMPDIR/file"; echo x > file')
    assert pool_project.wait(task).code == 0
    temporary, workspace = map(Path, pool_project.output(task).splitlines())
    assert temporary != workspace
    eventually(lambda: not temporary.exists() and not workspace.exists())


@pytest.mark.req("027a-FR-035", "027a-FR-036")
@pytest.mark.parametrize("way", ["flag", "setting"])
def test_workspaces_are_kept_on_request(pool_project: PoolProject, way: str) -> None:
    pool_project.keeps_workspaces = True
    if way == "setting":
        pool_project.configure(workers={"process": {"keepWorktrees": True}})
    pool_project.start(*(["--keep-worktrees"] if way == "flag" else []), count=1)
    task = pool_project.add("pwd; echo kept > file; exit 75", "--retries", "1")
    eventually(lambda: pool_project.show(task)["status"] == "failed")
    pool_project.stop()
    kept = [Path(line) for line in pool_project.output(task).splitlines()]
    assert len(set(kept)) == 2
    assert [(path / "file").read_text() for path in kept] == ["kept\n", "kept\n"]


@pytest.mark.req("027a-FR-007", "027a-FR-038", "027a-FR-040", "027a-FR-041", "forge-06")
def test_twenty_tasks_at_once_each_in_a_context_of_its_own(pool_project: PoolProject) -> None:
    pool_project.start(count=20)
    tell = 'echo "$PWD $TMPDIR $ACODE_WORKER_ID $MINE"; readlink /proc/$$/fd/1'
    wait = f"while [ ! -e {pool_project.root}/go ]; do sleep 0.02; done"
    specs = [{"command": f"{tell}; {wait}", "env": {"MINE": str(n)}} for n in range(20)]
    tasks = pool_project.add_all(specs)
    eventually(lambda: pool_project.pool()["busyCount"] == 20)
    (pool_project.root / "go").touch()
    assert pool_project.wait(*tasks).code == 0
    lines = [pool_project.output(task).split() for task in tasks]
    for place in range(5):
        assert len({line[place] for line in lines}) == 20
    for directory, temporary, worker, *_ in lines:
        assert worker in directory
        assert worker in temporary
        assert (pool_project.agent / "logs" / "workers" / f"worker-{worker}.log").stat().st_size
