"""Tasks that take more than they may: each is dealt with, and nobody else is harmed."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from acode.ids import new_id
from acode.model.limits import AttemptLimits
from acode.observe.feed import entries
from acode.runner.cgroup import PREFIX, find_place, remove_groups
from acode.runner.group import RESIDENTS, Group
from tests.pool.conftest import PoolProject, eventually

PLENTY = {"cpuPercent": 10_000, "memoryMb": 2048, "diskMb": 4096, "maxProcesses": 200}
BOTH = pytest.mark.parametrize(
    "how", [pytest.param("on", marks=pytest.mark.needs("cgroups v1")), "off"]
)
"""With control groups, and by looking at the process trees."""


def python(code: str) -> str:
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}"


def start(
    project: PoolProject, action: str, how: str = "on", *, count: int = 2, **limits: float
) -> None:
    project.env["ACODE_CGROUPS"] = how
    workers = {
        "limits": PLENTY | limits,
        "resources": {"overLimitAction": action},
        "process": {"killTimeoutSeconds": 1},
        "heartbeatIntervalMs": 200,
    }
    project.configure(workers=workers)
    project.start(count=count)


@contextmanager
def an_unharmed_neighbour(project: PoolProject) -> Iterator[None]:
    """A task that runs all the while, and a pool that is well afterwards."""
    started, go = project.root / "neighbour.started", project.root / "neighbour.go"
    # One that needs no further process, which a machine full of them could not give it.
    steady = f"""
import os, time
open({str(started)!r}, "w").close()
while not os.path.exists({str(go)!r}): time.sleep(0.02)
"""
    neighbour = project.add(python(steady))
    eventually(started.exists)
    workers = {worker["id"] for worker in project.workers()}
    yield
    project.let_go("neighbour")
    after = project.add("echo well")
    assert project.wait(neighbour, after).code == 0
    assert project.output(after) == "well"
    assert project.show(neighbour)["attemptCount"] == 1
    assert {worker["id"]: worker["restarts"] for worker in project.workers()} == dict.fromkeys(
        workers, 0
    )


def assert_over_limit(project: PoolProject, task: str, what: str, limit: float) -> Any:
    shown = project.show(task)
    (attempt,) = shown["attempts"]
    assert (shown["status"], attempt["ending"]) == ("failed", "overLimit")
    error = shown["error"]
    assert (error["code"], error["category"]) == ("RESOURCE_EXHAUSTED", "permanent")
    assert error["message"].startswith("WORKER-005: the command used ")
    assert f" of {what}, its limit is {limit:g}" in error["message"]
    assert f"workers.limits.{what}" in error["hint"]
    assert "WORKER-005" in project.daemon_log()
    return attempt


ONE = "x = bytearray(300 << 20); import time; time.sleep(60)"
MANY = """
import os, time
for _ in range(12):
    if os.fork() == 0:
        x = bytearray(25 << 20)
        time.sleep(60)
time.sleep(60)
"""


@BOTH
@pytest.mark.req("027-FR-056", "027-FR-058", "027-FR-063", "027-FR-064", "forge-18")
@pytest.mark.parametrize("hog", [ONE, MANY], ids=["one", "many"])
@pytest.mark.req("027-ERR-005", "027-AC-009", "027-NFR-007")
def test_a_memory_hog_is_ended(pool_project: PoolProject, how: str, hog: str) -> None:
    start(pool_project, "kill", how, memoryMb=100)
    with an_unharmed_neighbour(pool_project):
        task = pool_project.add(python(hog), "--retries", "0")
        assert pool_project.wait(task).code == 1
        attempt = assert_over_limit(pool_project, task, "memoryMb", 100)
        assert attempt["oom"] is (how == "on")
        assert attempt["usage"]["maxMemoryBytes"] > 90 << 20


@BOTH
@pytest.mark.needs("git")
@pytest.mark.req("027-FR-058")
def test_a_hog_in_a_worktree_is_ended_and_so_is_one_in_a_check(
    pool_project: PoolProject, how: str
) -> None:
    make_repository(pool_project)
    pool_project.env["ACODE_CGROUPS"] = how
    workers = {"limits": PLENTY | {"memoryMb": 100}, "resources": {"overLimitAction": "kill"}}
    check = f"test ! -e bad || {python(ONE)}"
    pool_project.configure(workers=workers, tasks={"testCommand": check})
    pool_project.start(count=2)
    command, checked = pool_project.add(python(ONE)), pool_project.add("touch bad")
    assert pool_project.wait(command, checked).code == 1
    assert_over_limit(pool_project, command, "memoryMb", 100)
    shown = pool_project.show(checked)
    assert shown["attempts"][0]["ending"] == "overLimit"
    assert "memoryMb, its limit is 100" in shown["error"]["message"]


@BOTH
@pytest.mark.req("027-FR-062")
def test_memory_that_was_used_is_told_whatever_is_cached_at_the_end(
    pool_project: PoolProject, how: str
) -> None:
    start(pool_project, "warn", how)
    hog = python("x = bytearray(150 << 20)")
    task = pool_project.add(f"{hog}; dd if=/dev/zero of=file bs=1M count=140 status=none")
    assert pool_project.wait(task).code == 0
    (attempt,) = pool_project.show(task)["attempts"]
    assert 150 << 20 < attempt["usage"]["maxMemoryBytes"] < 250 << 20


GROWER = """
import os, time
x = [bytearray(100 << 20)]
while not os.path.exists({go!r}):
    time.sleep(0.02)
    x.append(bytearray(1 << 16))
"""


def memory_of(project: PoolProject, task: str) -> int:
    (worker,) = [worker for worker in project.workers() if worker["currentTaskId"] == task]
    return int(worker["resources"]["memoryBytes"])


@BOTH
@pytest.mark.req("027-FR-065", "027-FR-063", "027-FR-062", "forge-25")
def test_a_warned_hog_goes_on_and_is_told_of_once(pool_project: PoolProject, how: str) -> None:
    start(pool_project, "warn", how, memoryMb=64)
    go = pool_project.root / "go"
    task = pool_project.add(python(GROWER.format(go=str(go))))
    eventually(lambda: "WORKER-005" in pool_project.daemon_log())
    used: list[int] = []
    # A few more looks: the last are at all of it, and a second warning would have come.
    while len(used) < 4:
        eventually(lambda: memory_of(pool_project, task) not in used[-1:])
        used.append(memory_of(pool_project, task))
    go.touch()
    assert max(used) > 100 << 20
    assert pool_project.wait(task).code == 0
    assert pool_project.daemon_log().count("WORKER-005") == 1
    feed = str(pool_project.agent / "run" / "feed" / "events.jsonl")
    over = eventually(lambda: [e for e, _ in entries(feed) if e.type == "task.overLimit"])
    assert [(e.payload["taskId"], e.payload["what"]) for e in over] == [(task, "memoryMb")]
    told = pool_project.run("task", "logs", task, "--format", "json").out
    lines = [json.loads(line)["message"] for line in told.splitlines()]
    (line,) = [line for line in lines if "WORKER-005" in line]
    assert re.search(r"over its limit: memoryMb is [\d.]+, the limit is 64; it goes on", line)
    assert pool_project.show(task)["attempts"][0]["usage"]["maxMemoryBytes"] > 100 << 20


BURN = """
import os, time
def used(): return sum(os.times()[:2])
seen = [used()]
while not os.path.exists({go!r}):
    until = time.monotonic() + 1
    while time.monotonic() < until: pass
    seen.append(used())
    print(seen[-1] - seen[-2], flush=True)
"""


@BOTH
@pytest.mark.req("027-FR-057", "027-FR-064", "027-NFR-008", "forge-25")
def test_a_cpu_hog_is_slowed_down(pool_project: PoolProject, how: str) -> None:
    start(pool_project, "throttle", how, cpuPercent=20)
    go = pool_project.root / "go"
    task = pool_project.add(python(BURN.format(go=str(go))))
    eventually(lambda: "cpuPercent" in pool_project.daemon_log())
    slow = len(pool_project.output(task).split())
    eventually(lambda: len(pool_project.output(task).split()) >= slow + 4)
    go.touch()
    assert pool_project.wait(task).code == 0
    # A second of the clock: 0.2 of the processor is its share, and 1.0 would be a whole core.
    share = [float(word) for word in pool_project.output(task).split()][slow + 1 : slow + 4]
    assert sum(share) / len(share) < 0.6
    assert pool_project.daemon_log().count("WORKER-005") == 1


@pytest.mark.req("027-FR-057", "027-FR-064")
def test_a_cpu_hog_can_be_ended(pool_project: PoolProject) -> None:
    start(pool_project, "kill", cpuPercent=5)
    task = pool_project.add("while :; do :; done")
    assert pool_project.wait(task).code == 1
    assert_over_limit(pool_project, task, "cpuPercent", 5)


FILLERS = {
    "one file": "head -c 300000000 /dev/zero > large",
    "who notices": python("open('large', 'wb').write(bytes(300_000_000))"),
    "many files": "i=0; while :; do head -c 2000000 /dev/zero > $i; i=$((i+1)); sleep 0.02; done",
    "temporary": 'i=0; while :; do head -c 2000000 /dev/zero > "$TMPDIR/$i"; i=$((i+1)); '
    "sleep 0.02; done",
}


@pytest.mark.req("027-FR-059", "027-FR-063")
@pytest.mark.parametrize("filler", FILLERS.values(), ids=FILLERS)
def test_a_disk_filler_is_ended(pool_project: PoolProject, filler: str) -> None:
    start(pool_project, "kill", diskMb=20)
    with an_unharmed_neighbour(pool_project):
        task = pool_project.add(filler)
        assert pool_project.wait(task).code == 1
        assert_over_limit(pool_project, task, "diskMb", 20)


@pytest.mark.needs("git")
@pytest.mark.req("027-FR-059")
def test_what_was_checked_out_is_not_what_the_task_has_written(pool_project: PoolProject) -> None:
    make_repository(pool_project, large=30_000_000)
    start(pool_project, "kill", diskMb=20)
    wrote = "head -c 1000000 /dev/zero > mine; sleep 2.5"
    assert pool_project.wait(pool_project.add(wrote)).code == 0
    filler = pool_project.add(FILLERS["many files"])
    assert pool_project.wait(filler).code == 1
    assert_over_limit(pool_project, filler, "diskMb", 20)


def make_repository(project: PoolProject, large: int = 0) -> None:
    project.keeps_workspaces = True  # the checkout that they share
    (project.root / "large").write_bytes(os.urandom(large))
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@localhost"]
    for words in (["init", "-q"], ["add", "large"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], cwd=project.root, check=True, capture_output=True)


@pytest.fixture
def fence() -> Iterator[Group]:
    """A control group that no fork bomb gets out of, whatever acode does.

    Ask for it before the project, so that its pool is gone when the group is removed.
    """
    place = find_place()
    assert place is not None
    group = Group(place, f"fence-{new_id(1)}")
    group.make()
    group.hold_to(AttemptLimits(max_processes=400))
    yield group
    group.close()
    assert remove_groups(group.directories.values())


def start_inside(project: PoolProject, fence: Group) -> None:
    with project.popen("worker", "start", "--count", "2", preexec_fn=fence.enter) as starting:
        assert starting.wait() == 0, starting.stderr


BOMB = "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass"


@BOTH
@pytest.mark.needs("cgroups v1")
@pytest.mark.req("forge-18", "027-FR-068")
def test_a_fork_bomb_is_ended(fence: Group, pool_project: PoolProject, how: str) -> None:
    pool_project.env["ACODE_CGROUPS"] = how
    limits = PLENTY | {"maxProcesses": 30}
    resources = {"overLimitAction": "kill"}
    pool_project.configure(workers={"limits": limits, "resources": resources})
    start_inside(pool_project, fence)
    with an_unharmed_neighbour(pool_project):
        task = pool_project.add(python(BOMB))
        assert pool_project.wait(task).code == 1
        assert_over_limit(pool_project, task, "maxProcesses", 30)


@BOTH
@pytest.mark.needs("cgroups v1")
def test_a_fork_bomb_dies_with_its_worker(
    fence: Group, pool_project: PoolProject, how: str
) -> None:
    pool_project.env["ACODE_CGROUPS"] = how
    pool_project.configure(workers={"limits": PLENTY | {"maxProcesses": 1000}})
    start_inside(pool_project, fence)
    inside = Path(fence.directories["pids"]) / "pids.current"
    workers = pool_project.worker_pids()
    before = int(inside.read_text())
    task = pool_project.add(python(BOMB), "--retries", "0")
    eventually(lambda: int(inside.read_text()) > 300)
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    eventually(lambda: int(inside.read_text()) <= before)
    assert pool_project.wait(task).code == 1


@pytest.mark.needs("cgroups v1")
@pytest.mark.req("forge-18", "027-FR-068")
def test_a_warned_fork_bomb_is_bounded(fence: Group, pool_project: PoolProject) -> None:
    limits = PLENTY | {"maxProcesses": 30}
    pool_project.configure(workers={"limits": limits, "process": {"killTimeoutSeconds": 0.1}})
    start_inside(pool_project, fence)
    with an_unharmed_neighbour(pool_project):
        task = pool_project.add(python(BOMB))
        eventually(lambda: "maxProcesses" in pool_project.daemon_log())
        ours = [p for p in pool_project.processes() if p.environ().get("ACODE_TASK_ID") == task]
        assert 25 <= len(ours) <= 30 + RESIDENTS
        assert pool_project.run("task", "cancel", task).code == 0
        eventually(lambda: pool_project.status(task) == "cancelled")


EATER = """
import resource
files = []
try:
    while True: files.append(open("/dev/null"))
except OSError as error:
    print(len(files), error.errno)
del files
print(resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_CORE)[0])
print(open("/proc/self/oom_score_adj").read().strip())
"""


@pytest.mark.req("forge-18")
@pytest.mark.parametrize("files", [40, 100])
@pytest.mark.parametrize("where", ["scratch", "worktree"])
def test_an_eater_of_file_descriptors_gets_no_more(
    pool_project: PoolProject, where: str, files: int
) -> None:
    make_repository(pool_project)
    start(pool_project, "warn", maxOpenFiles=files)
    with an_unharmed_neighbour(pool_project):
        task = pool_project.add(python(EATER), "--workspace", where)
        assert pool_project.wait(task).code == 0
        counted, limits, oom = pool_project.output(task).splitlines()
        assert counted == f"{files - 3} 24"
        wall = 64 if where == "scratch" and files < 64 else files
        assert limits == f"({files}, {wall}) 0"
        assert int(oom) >= 500


def test_who_floods_or_ignores_every_signal_harms_nobody(pool_project: PoolProject) -> None:
    start(pool_project, "kill")
    with an_unharmed_neighbour(pool_project):
        flood = pool_project.add("yes 0123456789012345678901234567890123456789 | head -c 60000000")
        deaf = pool_project.add(
            "trap '' TERM INT HUP; while :; do sleep 60; done", "--timeout", "1", "--retries", "99"
        )
        assert pool_project.wait(flood).code == 0
        eventually(lambda: pool_project.show(deaf)["attempts"][:1])
        eventually(lambda: pool_project.show(deaf)["attempts"][0]["ending"] == "timedOut")
        assert pool_project.run("task", "cancel", "--force", deaf).code == 0


# The cause of death.


@pytest.mark.needs("cgroups v1")
def test_the_cause_of_death_is_named(pool_project: PoolProject) -> None:
    start(pool_project, "kill", memoryMb=64)
    hog = "import os; x = bytearray(300 << 20)"
    commands = {
        "exit 137": ("exited", 137, None, False),
        "kill -9 $$": ("signalled", None, 9, False),
        python(hog): ("overLimit", None, None, True),
        f"{python(hog)}; exit 137": ("overLimit", None, None, True),
        "kill -TERM $$": ("signalled", None, 15, False),
    }
    tasks = {command: pool_project.add(command) for command in commands}
    pool_project.wait(*tasks.values())
    found = {}
    for command, task in tasks.items():
        attempt = pool_project.show(task)["attempts"][0]
        found[command] = tuple(attempt[key] for key in ("ending", "exitCode", "signal", "oom"))
    assert found == commands


@pytest.mark.needs("cgroups v1")
def test_memory_that_ran_out_above_us_is_told_apart_from_any_kill(
    pool_project: PoolProject,
) -> None:
    place = find_place()
    assert place is not None
    above = Group(place, f"above-{new_id(1)}")
    above.make()
    try:
        Path(above.directories["memory"], "memory.limit_in_bytes").write_text("200M")
        with pool_project.popen("worker", "start", "--count", "1", preexec_fn=above.enter) as done:
            assert done.wait() == 0
        task = pool_project.add(python(ONE))
        assert pool_project.wait(task).code == 1
        shown = pool_project.show(task)
        assert shown["error"]["code"] == "RESOURCE_EXHAUSTED"
        (attempt,) = shown["attempts"]
        assert (attempt["ending"], attempt["signal"], attempt["oom"]) == (
            "signalled",
            signal.SIGKILL,
            True,
        )
        pool_project.stop()
    finally:
        above.close()
        assert remove_groups(above.directories.values())


HUNGRY_AT_FIRST = """
import os, time
x = bytearray((300 if os.environ["ACODE_ATTEMPT"] == "1" else 1) << 20)
time.sleep(60 if len(x) > 1 << 20 else 0)
"""


@BOTH
@pytest.mark.req("forge-21")
def test_a_hog_is_tried_again_only_if_its_task_sets_retries(
    pool_project: PoolProject, how: str
) -> None:
    start(pool_project, "kill", how, memoryMb=100)
    hog = python(HUNGRY_AT_FIRST)
    blind, flagged = pool_project.add(hog), pool_project.add(hog, "--retries", "1")
    (written,) = pool_project.add_all([{"command": hog, "retryLimit": 1}])
    assert pool_project.wait(blind, flagged, written).code == 1
    assert_over_limit(pool_project, blind, "memoryMb", 100)
    assert "the task sets no retries" in pool_project.show(blind)["history"][-1]["reason"]
    for task in (flagged, written):
        shown = pool_project.show(task)
        assert shown["status"] == "completed"
        assert [each["ending"] for each in shown["attempts"]] == ["overLimit", "exited"]


# What a task may ask for.


@pytest.mark.needs("cgroups v1")
@pytest.mark.req("027-FR-060")
def test_a_task_is_held_to_what_it_asks_for(pool_project: PoolProject) -> None:
    start(pool_project, "kill", memoryMb=100)
    middle = python("x = bytearray(150 << 20)")
    usual, more = pool_project.add(middle), pool_project.add(middle, "--memory-mb", "300")
    less = pool_project.add(python("x = bytearray(60 << 20)"), "--memory-mb", "40")
    pool_project.wait(usual, more, less)
    assert_over_limit(pool_project, usual, "memoryMb", 100)
    assert pool_project.status(more) == "completed"
    assert_over_limit(pool_project, less, "memoryMb", 40)


@pytest.mark.req("027-FR-060", "forge-19")
def test_a_task_cannot_ask_for_more_than_the_pool_has(pool_project: PoolProject) -> None:
    limits = {"totalMemoryMb": 1000, "totalCpuPercent": 150}
    pool_project.configure(workers={"poolLimits": limits, "limits": {"diskMb": 50}})
    for flag, setting in (
        ("--memory-mb", "at most 1,000 (workers.poolLimits.totalMemoryMb)"),
        ("--cpu-percent", "at most 150 (workers.poolLimits.totalCpuPercent)"),
        ("--disk-mb", "at most 50 (workers.limits.diskMb)"),
    ):
        refused = pool_project.run("task", "add", flag, "1001", "--", "true")
        assert refused.code == 2
        assert f"{flag}: found 1001, expected {setting}" in refused.err
    text = json.dumps({"tasks": [{"command": "true", "limits": {"memoryMb": 1001}}]})
    refused = pool_project.run("task", "add", "-", text=text)
    assert refused.code == 1
    assert "limits.memoryMb: found 1001, expected at most 1,000" in refused.err
    assert pool_project.run("task", "add", "--memory-mb", "1000", "--", "true").code == 0


# Groups do not leak.


def groups_of(workers: list[str]) -> list[str]:
    place = find_place()
    assert place is not None
    return [
        f"{directory}/{PREFIX}{worker}"
        for directory in place.directories.values()
        for worker in workers
        if os.path.isdir(f"{directory}/{PREFIX}{worker}")
    ]


def start_busy(project: PoolProject) -> list[str]:
    """Two workers with a task each, because a group is made with the first one."""
    project.start(count=2)
    for name in ("one", "two"):
        project.hold(name)
    return [worker["id"] for worker in project.workers()]


@pytest.mark.needs("cgroups v1")
def test_no_group_is_left_of_a_pool_that_stopped(pool_project: PoolProject) -> None:
    workers = start_busy(pool_project)
    place = find_place()
    assert place is not None
    assert len(groups_of(workers)) == 2 * len(place.directories)
    pool_project.stop("--force")
    assert groups_of(workers) == []


@pytest.mark.needs("cgroups v1")
def test_no_group_is_left_of_what_was_killed(pool_project: PoolProject) -> None:
    workers, pids = start_busy(pool_project), pool_project.worker_pids()
    pool_project.kill_hard()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    assert groups_of(workers)
    pool_project.start(count=1)
    assert groups_of(workers) == []


@pytest.mark.needs("cgroups v1")
def test_no_group_is_left_of_workers_that_nobody_looks_after(pool_project: PoolProject) -> None:
    workers = start_busy(pool_project)
    pool_project.kill_hard()
    assert pool_project.run("worker", "stop", "--force").code == 0
    assert groups_of(workers) == []
