"""Tasks that leave traps for whoever tidies up after them, or for those who come next."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from acode.clock import ticks
from tests.pool.conftest import PoolProject, eventually
from tests.pool.test_sandbox import Confined

pytestmark = pytest.mark.needs("landlock", "git")

DEEP = """
import os, sys
os.chdir(os.path.expandvars(sys.argv[1]))
for _ in range(2000):
    os.mkdir("deep")
    os.chdir("deep")
"""

LOOK = """
import os, resource
own = {"TMPDIR", "PWD", "OLDPWD"}
print(os.getppid())
print(sorted(item for item in os.environ.items() if not item[0].startswith("ACODE_")
      and item[0] not in own))
print(resource.getrlimit(resource.RLIMIT_NOFILE))
print(sorted(os.listdir("/proc/self/fd")))
print(os.umask(0))
print(os.getcwd() == os.environ["ACODE_WORKTREE_PATH"])
print([line for line in open("/proc/self/status") if line.startswith("SigIgn")])
"""


@pytest.fixture
def confined(pool_project: PoolProject) -> Confined:
    return Confined(pool_project)


@pytest.fixture
def unconfined(confined: Confined) -> Confined:
    """As root, tasks may do whatever root may."""
    confined.pool.env["ACODE_SANDBOX__LEVEL"] = "off"
    return confined


def stewards(project: PoolProject) -> list[psutil.Process]:
    (worker,) = project.worker_pids()
    return psutil.Process(worker).children()


def workspaces(project: PoolProject) -> list[str]:
    """What is left of workspaces; what they share does not count."""
    shared = f"{project.agent}/worktrees"
    folders = [f"{shared}/.trash", f"{shared}/{project.workers()[0]['id']}"]
    folders.append(f"{folders[-1]}/.state")
    found = [name for folder in folders if os.path.isdir(folder) for name in os.listdir(folder)]
    return [name for name in found if name not in (".state", "scratch")]


@pytest.mark.parametrize("workspace", ["scratch", "worktree"])
def test_whoever_tidies_up_does_not_walk_into_a_trap(confined: Confined, workspace: str) -> None:
    pool, home = confined.pool, confined.home
    pool.start(count=1)
    worker = pool.worker_pids()
    deep = f"{shlex.quote(sys.executable)} -c {shlex.quote(DEEP)}"
    traps = [
        f'rmdir "$ACODE_ARTIFACTS_DIR" && ln -s {home} "$ACODE_ARTIFACTS_DIR"',
        f'rmdir "$TMPDIR" && ln -s {home} "$TMPDIR"',
        'mkdir "$ACODE_CHECKPOINT" && touch "$ACODE_CHECKPOINT/file"',
        f'ln -s {home}/precious "$ACODE_CHECKPOINT"',
        'mkfifo "$ACODE_CHECKPOINT" "$ACODE_ARTIFACTS_DIR/pipe"',
        "mkfifo .gitignore .gitattributes; echo new > file",
        *(f"{deep} '{place}'" for place in ("$TMPDIR", "$ACODE_ARTIFACTS_DIR", ".")),
    ]
    assert confined.codes(traps, workspace) == [0] * len(traps)
    assert pool.worker_pids() == worker
    assert (home / "precious").read_text() == "precious"
    eventually(lambda: not workspaces(pool))
    assert not pool.show(confined.last)["artifacts"]


def test_an_attempt_finds_nothing_that_another_has_left_beside_its_directories(
    confined: Confined,
) -> None:
    confined.pool.start(count=1)
    leave = 'touch "$TMPDIR/../left"'
    look = 'test "$(echo $(ls -A "$TMPDIR/.."))" = "artifacts tmp work"'
    assert confined.codes([leave, look, leave, look], "scratch") == [0] * 4
    further = 'touch "$TMPDIR/../../left" 2> /dev/null'
    assert confined.codes([further], "scratch") == [1]


@pytest.mark.parametrize("workspace", ["scratch", "worktree"])
def test_an_attempt_finds_nothing_where_others_had_their_checkpoint(
    confined: Confined, workspace: str
) -> None:
    confined.pool.start(count=1)
    leaves = 'echo secret > "$(dirname "$ACODE_CHECKPOINT")/left"'
    looks = 'test -z "$(ls -A "$(dirname "$ACODE_CHECKPOINT")")"'
    assert confined.codes([leaves, looks, f"{leaves}; exit 3", looks], workspace) == [0, 0, 3, 0]


@pytest.mark.parametrize("workspace", ["scratch", "worktree"])
def test_a_place_for_checkpoints_that_is_none_costs_nothing(
    unconfined: Confined, workspace: str
) -> None:
    unconfined.pool.start(count=1)
    worker = unconfined.pool.worker_pids()
    spoils = 'd=$(dirname "$ACODE_CHECKPOINT"); rm -rf "$d" && touch "$d"; exit 3'
    assert unconfined.codes([spoils, "true"], workspace) == [3, 0]
    assert unconfined.pool.worker_pids() == worker


def test_a_pipe_in_the_place_of_a_head_keeps_nobody_else_waiting(confined: Confined) -> None:
    pool = confined.pool
    pool.start(count=2)
    waits = pool.add(
        "cd $(git rev-parse --git-dir); for name in HEAD locked gitdir; do"
        " rm $name; mkfifo $name; done; echo ready; sleep 1000"
    )
    eventually(lambda: "ready" in pool.output(waits))
    works = pool.add("echo mine > mine")
    assert pool.wait(works).code == 0
    assert pool.show(works)["branch"]
    assert pool.run("task", "cancel", waits).code == 0
    pool.wait(waits)
    assert pool.status(waits) == "cancelled"


@pytest.mark.parametrize("moment", ["open_workspace:after", "Steward._collect:before"])
def test_a_steward_that_is_killed_costs_an_attempt_and_leaves_nothing(
    confined: Confined, moment: str
) -> None:
    pool = confined.pool
    pool.configure(retry={"initialDelayMs": 10})
    pool.prepare_fault(f"acode.worker.steward:{moment}")
    pool.start(count=1)
    worker = pool.worker_pids()
    pool.arm()
    task = pool.add("echo mine > mine")
    assert pool.wait(task).code in (0, 1)
    assert pool.is_struck()
    assert pool.worker_pids() == worker
    attempts = [attempt["ending"] for attempt in pool.show(task)["attempts"]]
    assert attempts == (["lost", "exited"] if "open" in moment else ["exited", "exited"])
    eventually(lambda: not workspaces(pool))


def test_what_a_task_does_to_itself_does_not_reach_the_next_one(confined: Confined) -> None:
    pool = confined.pool
    pool.start(count=1)
    look = f"exec {shlex.quote(sys.executable)} -c {shlex.quote(LOOK)}"
    change = "umask 077; ulimit -n 99; export CHANGED=1; cd /; trap '' TERM; exec 3> $TMPDIR/open; "
    tasks = []
    for command, flags in ((look, ()), (change + look, ("--memory-mb", "99")), (look, ())):
        tasks.append(pool.add(command, *flags))
        assert pool.wait(tasks[-1]).code == 0, pool.show(tasks[-1])
        eventually(lambda: not workspaces(pool))
    before, changed, after = (pool.output(task).splitlines() for task in tasks)
    assert before == after
    assert all(map(str.__ne__, before[1:], changed[1:]))


def test_a_command_that_cannot_be_started_leaves_no_workspace(confined: Confined) -> None:
    pool = confined.pool
    pool.start(count=1)
    for _ in range(3):
        task = pool.cli.add("--", "/no/such/program", "argument")
        pool.wait(task)
        assert pool.show(task)["error"]["code"] == "TOOL_NOT_FOUND"
    eventually(lambda: not workspaces(pool))
    assert len(stewards(pool)) <= 1


@pytest.mark.needs("root")
def test_a_pool_stops_at_once_after_a_steward_that_died_unheard(unconfined: Confined) -> None:
    pool = unconfined.pool
    pool.start(count=1)
    place = unconfined.home
    # A moment goes by before this ending counts. What is mounted makes the steward leave in it.
    task = pool.add(f"mount -t tmpfs none {place}; exit 143")
    assert pool.wait(task).code == 1
    eventually(lambda: not stewards(pool))
    began = ticks()
    pool.stop()
    assert ticks() - began < 15


@pytest.mark.needs("root")
@pytest.mark.parametrize("workspace", ["scratch", "worktree"])
@pytest.mark.parametrize("at", ["/m", ""], ids=["inside", "over it"])
def test_what_a_task_has_mounted_in_its_places_is_not_deleted(
    unconfined: Confined, workspace: str, at: str
) -> None:
    pool, home = unconfined.pool, unconfined.home
    pool.start(count=1)
    point = "{0}" + at
    mount = f"mkdir -p {point} && mount --bind {home} {point} && test -e {point}/precious"
    places = ("$TMPDIR", "$ACODE_ARTIFACTS_DIR/..", ".")
    if not at:
        places = ("$TMPDIR", "$PWD") if workspace == "scratch" else ("$TMPDIR",)
    codes = unconfined.codes([mount.format(place) for place in places], workspace)
    assert codes == [0] * len(places)
    eventually(lambda: not workspaces(pool))
    assert (home / "precious").read_text() == "precious"
    assert str(pool.root) not in Path("/proc/self/mountinfo").read_text()


@pytest.mark.needs("root")
def test_a_link_in_the_place_of_a_workspace_costs_nothing(unconfined: Confined) -> None:
    pool, home = unconfined.pool, unconfined.home
    pool.start(count=1)
    task = pool.add(f"echo mine > mine; w=$PWD; cd /; umount -l $w; rmdir $w; ln -s {home} $w")
    assert pool.wait(task).code == 0, pool.show(task)
    branch = pool.show(task)["branch"]
    shown = subprocess.check_output(["git", "show", f"{branch}:mine"], cwd=pool.root, text=True)
    assert shown == "mine\n"
    eventually(lambda: not workspaces(pool))
    assert [path.name for path in home.iterdir()] == ["precious"]
