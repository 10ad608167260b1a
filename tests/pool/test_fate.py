"""What becomes of a task: retries, dead letters, order, limits, dependencies, circuits."""

import itertools
import json
from pathlib import Path

import psutil
import pytest

from acode.clock import Deadline
from tests.pool.conftest import PoolProject, eventually

QUICK = {"initialDelayMs": 10, "maxDelayMs": 20}


def endings(project: PoolProject, task: str) -> list[str]:
    return [attempt["ending"] for attempt in project.show(task)["attempts"]]


def dead_letters(project: PoolProject) -> list[str]:
    return [letter["taskId"] for letter in project.ask("dlq", "list")]


def began(project: PoolProject, *tasks: str) -> list[str]:
    """Tasks in the order in which they were begun."""
    return sorted(tasks, key=lambda task: str(project.show(task)["startedAt"]))


@pytest.mark.parametrize("retries", [(), ("--retries", "50")], ids=["default", "many"])
def test_a_task_that_kills_its_workers_is_quarantined(
    pool_project: PoolProject, retries: tuple[str, ...]
) -> None:
    pool_project.configure(workers={"process": {"restartDelayMs": 10}}, retry=QUICK)
    pool_project.start(count=2)
    poison = pool_project.add("kill -9 $PPID; sleep 60", *retries)
    assert pool_project.wait(poison).code == 1
    shown = pool_project.show(poison)
    assert endings(pool_project, poison) == ["lost"] * 3
    assert shown["error"]["code"] == "WORKER_CRASH"
    assert dead_letters(pool_project) == [poison]
    eventually(lambda: pool_project.pool()["idleCount"] == 2)
    assert pool_project.wait(pool_project.add("true")).code == 0


@pytest.mark.req("027a-FR-015", "027a-FR-016", "027a-FR-017", "027a-FR-018", "027a-FR-019")
@pytest.mark.req("027a-FR-020", "027a-FR-021", "027a-FR-023", "027a-AC-003")
def test_a_worker_that_crashes_is_restarted_later_and_later(pool_project: PoolProject) -> None:
    pool_project.configure(workers={"process": {"restartDelayMs": 20}})
    pool_project.start(count=1)
    for number in itertools.count(1):
        (worker,) = pool_project.workers()
        psutil.Process(worker["pid"]).kill()
        eventually(lambda n=number: pool_project.workers()[0]["restarts"] == n)
        eventually(lambda: pool_project.pool()["idleCount"] == 1)
        if number == 4:
            break
    log = pool_project.daemon_log()
    for delay in (0.02, 0.04, 0.08, 0.16):
        assert log.count(f"SIGKILL, exit code 137; restart in {delay} s") == 1


@pytest.mark.req("027a-FR-024", "027a-FR-025", "027a-FR-026")
def test_a_worker_that_crashed_too_often_fails_and_is_replaced(pool_project: PoolProject) -> None:
    limits = {"restartDelayMs": 10, "maxRestartDelayMs": 20, "maxRestarts": 2}
    pool_project.configure(workers={"process": limits})
    pool_project.start(count=1)
    (first,) = pool_project.workers()
    for number in range(3):
        psutil.Process(pool_project.workers()[0]["pid"]).kill()
        if number < 2:
            eventually(lambda n=number: pool_project.workers()[0]["restarts"] == n + 1)
            eventually(lambda: pool_project.pool()["idleCount"] == 1)
    eventually(
        lambda: [worker["id"] for worker in pool_project.workers()] not in ([], [first["id"]])
    )
    assert f"worker-{first['id']} failed and is replaced" in pool_project.daemon_log()
    eventually(lambda: pool_project.pool()["idleCount"] == 1)
    assert pool_project.wait(pool_project.add("true")).code == 0


def test_a_timeout_is_retried_and_then_a_dead_letter(pool_project: PoolProject) -> None:
    pool_project.configure(tasks={"retryLimit": 2}, retry=QUICK)
    pool_project.start(count=1)
    task = pool_project.add("sleep 60", "--timeout", "0.2")
    assert pool_project.wait(task).code == 1
    assert endings(pool_project, task) == ["timedOut"] * 3
    assert dead_letters(pool_project) == [task]


@pytest.mark.parametrize(
    ("code", "flags", "attempts", "category"),
    [
        (3, (), 1, "permanent"),
        (3, ("--retries", "2"), 3, "permanent"),
        (75, (), 3, "transient"),
        (77, ("--retries", "2"), 1, "permanent"),
        (78, ("--retries", "2"), 1, "permanent"),
    ],
)
def test_the_exit_code_says_whether_another_attempt_is_made(
    pool_project: PoolProject, code: int, flags: tuple[str, ...], attempts: int, category: str
) -> None:
    pool_project.configure(tasks={"retryLimit": 2}, retry=QUICK)
    pool_project.start(count=1)
    task = pool_project.add(f"exit {code}", *flags)
    assert pool_project.wait(task).code == 1
    shown = pool_project.show(task)
    assert (shown["attemptCount"], shown["exitCode"]) == (attempts, code)
    if code != 3:
        assert shown["error"]["category"] == category


@pytest.mark.req("027-FR-040", "027a-FR-065", "027a-FR-069", "027a-AC-009")
def test_a_failed_task_keeps_its_exit_code_and_can_be_retried(pool_project: PoolProject) -> None:
    pool_project.start(count=1)
    mark = pool_project.root / "fixed"
    task = pool_project.add(f"[ -e {mark} ] || exit 9")
    assert pool_project.wait(task).code == 1
    shown = pool_project.show(task)
    assert (shown["status"], shown["exitCode"]) == ("failed", 9)
    assert shown["error"]["code"] == "EXIT_CODE"
    mark.touch()
    assert pool_project.run("task", "retry", task).code == 0
    assert pool_project.wait(task).code == 0
    assert dead_letters(pool_project) == []


@pytest.mark.req("027-FR-054", "027-FR-055")
def test_a_drain_that_takes_too_long_releases_what_runs(pool_project: PoolProject) -> None:
    pool_project.configure(workers={"drainTimeoutSeconds": 0.2})
    pool_project.start(count=1)
    task, waiting = pool_project.hold("it"), pool_project.add("true")
    pool_project.stop()
    shown = pool_project.show(task)
    assert (shown["status"], shown["attemptCount"]) == ("pending", 0)
    assert endings(pool_project, task) == ["released"]
    assert pool_project.show(waiting)["attempts"] == []
    pool_project.let_go("it")
    pool_project.start(count=1)
    assert pool_project.wait(task, waiting).code == 0
    assert pool_project.show(task)["attemptCount"] == 1


def test_a_checkpoint_is_handed_to_the_next_attempt(pool_project: PoolProject) -> None:
    pool_project.configure(retry=QUICK)
    pool_project.start(count=2)
    task = pool_project.add(
        'cat "$ACODE_CHECKPOINT" 2>/dev/null; echo "step $ACODE_ATTEMPT" >> "$ACODE_CHECKPOINT"; '
        '[ "$ACODE_ATTEMPT" = 3 ]',
        "--retries",
        "5",
    )
    assert pool_project.wait(task).code == 0
    assert pool_project.output(task).split("\n") == ["step 1", "step 1", "step 2"]
    assert not list((pool_project.agent / "run" / "checkpoints").iterdir())


def test_dependents_are_begun_at_once(pool_project: PoolProject) -> None:
    pool_project.configure(workers={"pollIntervalMs": 30_000})
    pool_project.start(count=1)
    first = pool_project.hold("first")
    second = pool_project.add("true", "--after", first)
    third = pool_project.add("true", "--after", second)
    assert pool_project.status(second) == "blocked"
    pool_project.let_go("first")
    assert pool_project.wait(second, third).code == 0
    assert began(pool_project, third, second, first) == [first, second, third]


def test_a_workstream_that_only_fails_is_held_back(pool_project: PoolProject) -> None:
    pool_project.configure(breaker={"recoveryTimeoutMs": 600_000})
    pool_project.start(count=1)
    failing = pool_project.add_all([{"command": "exit 1", "workstreamId": "bad"}] * 5)
    pool_project.run("task", "wait", *failing)
    held = pool_project.add_all([{"command": "true", "workstreamId": "bad"}] * 3)
    other = pool_project.add("true", "--workstream", "good")
    assert pool_project.wait(other).code == 0
    assert [pool_project.show(task)["attempts"] for task in held] == [[], [], []]
    assert "circuit" in pool_project.run("task", "why", held[0]).out


def test_a_workstream_that_was_held_back_gets_another_chance(pool_project: PoolProject) -> None:
    pool_project.configure(breaker={"recoveryTimeoutMs": 100, "failureThreshold": 2})
    pool_project.start(count=1)
    failing = pool_project.add_all([{"command": "exit 1", "workstreamId": "bad"}] * 2)
    pool_project.run("task", "wait", *failing)
    held = pool_project.add_all([{"command": "true", "workstreamId": "bad"}] * 3)
    assert pool_project.wait(*held).code == 0
    assert [pool_project.show(task)["attemptCount"] for task in held] == [1, 1, 1]


def test_a_paused_queue_gives_nothing_to_a_running_pool(pool_project: PoolProject) -> None:
    pool_project.start(count=1)
    running = pool_project.hold("it")
    pool_project.run("queue", "pause")
    waiting = pool_project.add("true")
    pool_project.let_go("it")
    assert pool_project.wait(running).code == 0
    eventually(lambda: pool_project.pool()["idleCount"] == 1)
    assert pool_project.status(waiting) == "pending"
    pool_project.run("queue", "resume")
    assert pool_project.wait(waiting).code == 0


def test_a_delayed_task_waits_for_its_time(pool_project: PoolProject) -> None:
    pool_project.configure(workers={"pollIntervalMs": 30_000})
    pool_project.start(count=1)
    task = pool_project.add("true", "--delay", "0.7")
    assert pool_project.wait(task).code == 0
    shown = pool_project.show(task)
    assert shown["startedAt"] >= shown["readyAt"] > shown["createdAt"]


@pytest.mark.req("forge-02", "lld-11")
def test_the_most_urgent_is_first(pool_project: PoolProject) -> None:
    pool_project.start(count=1)
    first = pool_project.hold("first")
    levels = ("background", "low", "medium", "high")
    tasks = {level: pool_project.add("true", "--priority", level) for level in levels}
    pool_project.let_go("first")
    assert pool_project.wait(first, *tasks.values()).code == 0
    assert began(pool_project, *tasks.values()) == [tasks[level] for level in reversed(levels)]


def test_no_more_than_so_many_tasks_run_at_once(pool_project: PoolProject) -> None:
    pool_project.configure(workers={"poolLimits": {"concurrentTasks": 2}})
    pool_project.start(count=4)
    crowd, seen = pool_project.root / "crowd", pool_project.root / "seen"
    crowd.mkdir()
    command = f"touch {crowd}/$$; ls {crowd} | wc -l >> {seen}; sleep 0.05; rm {crowd}/$$"
    tasks = pool_project.add_all([{"command": command}] * 12)
    assert pool_project.wait(*tasks).code == 0
    counts = [int(line) for line in seen.read_text().splitlines()]
    assert len(counts) == 12
    assert max(counts) <= 2


def turns(project: PoolProject, *workstreams: str | None) -> list[str]:
    """The workers of tasks that are given one by one."""
    seen = project.root / "turns"
    for number, name in enumerate(workstreams):
        stream = ("--workstream", name) if name else ()
        project.add(f"echo $ACODE_WORKER_ID >> {seen}", *stream)
        eventually(lambda n=number: seen.exists() and len(seen.read_text().split()) == n + 1)
        eventually(lambda: project.pool()["idleCount"] == 3)
    return seen.read_text().split()


@pytest.mark.req("forge-04")
def test_a_workstream_goes_back_to_its_worker(pool_project: PoolProject) -> None:
    pool_project.start(count=3)
    homes = turns(pool_project, "a", "b", "c", "c", "a", "b")
    assert len(set(homes[:3])) == 3
    assert homes[3:] == [homes[2], homes[0], homes[1]]


@pytest.mark.req("forge-03", "forge-05")
def test_tasks_of_no_workstream_go_round(pool_project: PoolProject) -> None:
    pool_project.start(count=3)
    workers = turns(pool_project, *[None] * 6)
    assert len(set(workers[:3])) == 3
    assert workers[3:] == workers[:3]


def test_what_cannot_be_started_says_why(pool_project: PoolProject, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("#!/bin/sh\n")
    pool_project.start(count=1)
    batch = [
        {"command": "no-such-program", "args": ["x"]},
        {"command": str(plain), "args": ["x"]},
        {"command": "true", "args": ["x"], "cwd": "nowhere"},
        {"command": "echo", "args": ["a\x00b"]},
        {"command": "echo", "args": ["x"], "env": {"A": "a\x00b"}},
        {"command": "echo", "args": ["\ud800"]},
    ]
    codes = []
    for spec in batch:
        added = pool_project.run("task", "add", "-", "--json", text=json.dumps(spec))
        if added.code:
            codes.append("refused")
            continue
        pool_project.run("task", "wait", added.json["id"])
        codes.append(pool_project.show(added.json["id"])["error"]["code"])
    assert codes == [
        "TOOL_NOT_FOUND",
        "PERMISSION_DENIED",
        "INVALID_TASK",
        "refused",
        "refused",
        "refused",
    ]
    assert pool_project.workers()[0]["restarts"] == 0


def test_a_pool_that_waits_for_a_worker_to_start_again_can_be_stopped(
    pool_project: PoolProject,
) -> None:
    pool_project.configure(workers={"process": {"restartDelayMs": 60_000}})
    pool_project.start(count=2)
    psutil.Process(pool_project.worker_pids()[0]).kill()
    eventually(lambda: "crashed" in {worker["status"] for worker in pool_project.workers()})
    deadline = Deadline(30)
    pool_project.stop()
    assert deadline.left() > 0
