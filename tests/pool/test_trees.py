"""What an attempt starts dies with it, and nothing else does."""

import json
import os
import signal
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import psutil
import pytest

from tests.hopper import HOPPER, has_started, is_free
from tests.pool.conftest import PoolProject, eventually

ESCAPE = """
import os, signal, sys, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.chdir("/")
with open(sys.argv[1] + ".tmp", "w") as file:
    file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".tmp", sys.argv[1])
if "nameless" in sys.argv:
    os.execve("/bin/sleep", ["sleep", "600"], {})
time.sleep(600)
"""


class Escape:
    """A program that forks twice and leads a session of its own."""

    def __init__(self, directory: Path, *words: str) -> None:
        script, self._note = directory / "escape.py", directory / "escaped"
        script.write_text(ESCAPE)
        self.command = " ".join([sys.executable, str(script), str(self._note), *words])

    @property
    def wait(self) -> str:
        """Shell text that goes on when it has escaped."""
        return f"while [ ! -e {self._note} ]; do sleep 0.01; done"

    def has_escaped(self) -> bool:
        return self._note.exists()

    def pid(self) -> int:
        return int(self._note.read_text())


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


QUICK = {
    "workers": {"process": {"restartDelayMs": 10, "killTimeoutSeconds": 0.5}},
    "retry": {"initialDelayMs": 10},
}


@pytest.mark.parametrize("words", [(), ("stubborn",)], ids=["gentle", "stubborn"])
@pytest.mark.parametrize("code", [0, 1])
def test_a_daemon_of_a_task_dies_with_it(
    pool_project: PoolProject, tmp_path: Path, code: int, words: tuple[str, ...]
) -> None:
    escape = Escape(tmp_path, *words)
    pool_project.start(count=1)
    task = pool_project.add(f"{escape.command}; {escape.wait}; exit {code}")
    assert pool_project.wait(task).code == code
    assert is_gone(escape.pid())
    assert pool_project.show(task)["exitCode"] == code
    assert not pool_project.zombies()


@pytest.mark.req("027-FR-043", "027-FR-044", "027-AC-007", "027a-FR-060", "027a-FR-061")
@pytest.mark.req("027a-AC-010")
def test_a_timeout_ends_the_whole_tree(pool_project: PoolProject, tmp_path: Path) -> None:
    pool_project.configure(**QUICK)
    escape = Escape(tmp_path, "stubborn")
    pool_project.start(count=1)
    line = f"{escape.command}; {escape.wait}; sleep 600 & sleep 600"
    task = pool_project.add(line, "--timeout", "2", "--retries", "0")
    eventually(escape.has_escaped)
    worker = psutil.Process(pool_project.worker_pids()[0])
    tree = worker.children(recursive=True)
    assert pool_project.wait(task).code == 1
    assert is_gone(escape.pid())
    assert not [process for process in tree if process.is_running()]
    shown = pool_project.show(task)
    assert shown["error"]["code"] == "TIMEOUT"
    assert shown["attempts"][0]["ending"] == "timedOut"
    assert pool_project.worker_pids() == [worker.pid]


def test_a_cancelled_task_ends_with_its_tree(pool_project: PoolProject, tmp_path: Path) -> None:
    pool_project.configure(**QUICK)
    escape = Escape(tmp_path)
    pool_project.start(count=1)
    task = pool_project.add(f"{escape.command}; {escape.wait}; sleep 600")
    eventually(escape.has_escaped)
    assert pool_project.run("task", "cancel", task).code == 0
    eventually(lambda: pool_project.status(task) == "cancelled")
    assert is_gone(escape.pid())
    assert pool_project.show(task)["attempts"][0]["ending"] == "cancelled"


@pytest.mark.parametrize("words", [(), ("nameless",)], ids=["gentle", "nameless"])
def test_a_killed_worker_leaves_no_process(
    pool_project: PoolProject, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Even one that has left its session, its directory and its environment."""
    pool_project.configure(**QUICK)
    escape = Escape(tmp_path, *words)
    pool_project.start(count=1)
    task = pool_project.add(f"{escape.command}; {escape.wait}; sleep 600", "--retries", "0")
    eventually(escape.has_escaped)
    worker = psutil.Process(pool_project.worker_pids()[0])
    tree = worker.children(recursive=True)
    worker.kill()
    _, alive = psutil.wait_procs(tree, timeout=60)
    assert not alive
    assert pool_project.wait(task).code == 1
    assert pool_project.show(task)["error"]["code"] == "WORKER_CRASH"
    eventually(lambda: not pool_project.zombies())


def test_what_a_worker_left_that_died_without_a_daemon_is_ended_by_the_next(
    pool_project: PoolProject, tmp_path: Path
) -> None:
    pool_project.configure(**QUICK)
    escape = Escape(tmp_path)
    pool_project.start(count=1)
    task = pool_project.add(f"{escape.command}; {escape.wait}; sleep 600", "--retries", "0")
    eventually(escape.has_escaped)
    worker = psutil.Process(pool_project.worker_pids()[0])
    tree = worker.children(recursive=True)
    pool_project.kill_hard()
    worker.kill()
    pool_project.start(count=1)
    _, alive = psutil.wait_procs(tree, timeout=60)
    assert not alive
    assert pool_project.wait(task).code == 1
    assert pool_project.show(task)["error"]["code"] == "WORKER_CRASH"


@pytest.mark.parametrize("session", ["", "session"], ids=["one session", "sessions"])
@pytest.mark.parametrize("dies", ["nobody", "worker", "daemon and worker"])
@pytest.mark.parametrize(
    "how",
    [pytest.param("on", marks=pytest.mark.needs("cgroups v1")), "off"],
    ids="groups {}".format,
)
def test_whoever_forks_and_ends_all_the_time_dies_with_its_attempt(
    pool_project: PoolProject, how: str, dies: str, session: str
) -> None:
    pool_project.env["ACODE_CGROUPS"] = how
    pool_project.configure(**QUICK)
    (pool_project.root / "hopper.py").write_text(HOPPER)
    pool_project.start(count=1)
    hop = f"{sys.executable} hopper.py held {session}; sleep 600"
    task = pool_project.add(hop, "--workspace", "project", "--retries", "0")
    held = pool_project.root / "held"
    eventually(lambda: has_started(held))
    worker = psutil.Process(pool_project.worker_pids()[0])
    if dies == "nobody":
        assert pool_project.run("task", "cancel", task).code == 0
    else:
        if "daemon" in dies:
            pool_project.kill_hard()
        worker.kill()
        if "daemon" in dies:
            pool_project.start(count=1)
    assert pool_project.wait(task).code == 1
    eventually(lambda: is_free(held))


@pytest.mark.req("027a-FR-027", "027a-FR-029", "027a-FR-030")
def test_who_ignores_sigterm_gets_sigkill(pool_project: PoolProject) -> None:
    pool_project.configure(**QUICK)
    pool_project.start(count=1)
    task = pool_project.add("trap 'echo heard' TERM; echo ready; while :; do sleep 0.02; done")
    eventually(lambda: "ready" in pool_project.output(task))
    pool_project.run("task", "cancel", task)
    eventually(lambda: pool_project.status(task) == "cancelled")
    assert "heard" in pool_project.output(task)
    said = pool_project.run("task", "logs", task, "--format", "json").out
    assert said.index("sent SIGTERM") < said.index("heard") < said.index("sent SIGKILL")


@pytest.mark.req("027a-FR-028")
def test_nobody_is_killed_within_ten_seconds_of_being_asked(pool_project: PoolProject) -> None:
    pool_project.start(count=1)
    task = pool_project.add("trap '' TERM; echo ready; while :; do sleep 0.1; done")
    eventually(lambda: "ready" in pool_project.output(task))
    pool_project.run("task", "cancel", task)
    eventually(lambda: pool_project.status(task) == "cancelled")
    said = pool_project.run("task", "logs", task, "--format", "json").out.splitlines()
    at = {line["message"]: line["time"] for line in map(json.loads, said)}
    asked, killed = (datetime.fromisoformat(at[f"sent SIG{name}"]) for name in ("TERM", "KILL"))
    assert killed - asked >= timedelta(seconds=10)


def test_a_stopped_command_can_be_ended(pool_project: PoolProject) -> None:
    pool_project.start(count=1)
    task = pool_project.add("kill -STOP $$")
    eventually(lambda: pool_project.status(task) == "running")
    pool_project.run("task", "cancel", task)
    eventually(lambda: pool_project.status(task) == "cancelled")


def test_an_innocent_process_is_never_hit(pool_project: PoolProject) -> None:
    """One of the same user, in the same directory, while attempts and workers are killed."""
    pool_project.configure(**QUICK)
    pool_project.start(count=2)
    with subprocess.Popen(
        ["sleep", "600"], cwd=pool_project.agent / "run", start_new_session=True
    ) as innocent:
        task = pool_project.hold("it", "--retries", "0")
        pool_project.run("task", "cancel", task, "--force")
        eventually(lambda: pool_project.status(task) == "cancelled")
        for pid in pool_project.worker_pids():
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: pool_project.pool()["idleCount"] == 2)
        pool_project.kill_hard()
        pool_project.start(count=2)
        assert innocent.poll() is None
        innocent.kill()


@pytest.mark.req("027a-NFR-006", "027a-AC-011")
def test_no_zombie_is_left(pool_project: PoolProject) -> None:
    pool_project.start(count=2)
    tasks = pool_project.add_all([{"command": "sleep 0.05 & sleep 0.01 & exec true"}] * 20)
    assert pool_project.wait(*tasks).code == 0
    assert not pool_project.zombies()
    pool_project.run("worker", "scale", "1")
    eventually(lambda: len(pool_project.workers()) == 1)
    assert not pool_project.zombies()


def test_a_child_that_keeps_the_output_open_delays_nothing(
    pool_project: PoolProject, tmp_path: Path
) -> None:
    escape = Escape(tmp_path)
    pool_project.start(count=1)
    task = pool_project.add(f"{escape.command}; {escape.wait}; echo done")
    assert pool_project.wait(task).code == 0
    assert is_gone(escape.pid())
    assert pool_project.output(task) == "done"


def test_what_a_task_does_to_its_directories_is_no_trouble(pool_project: PoolProject) -> None:
    pool_project.start(count=1)
    pids = pool_project.worker_pids()
    tasks = [
        pool_project.add('rm -rf "$ACODE_ARTIFACTS_DIR" "$TMPDIR" "$ACODE_WORKTREE_PATH"'),
        pool_project.add('mkdir "$TMPDIR/a"; touch "$TMPDIR/a/b"; chmod 0 "$TMPDIR/a"'),
        pool_project.add('rm -r "$ACODE_ARTIFACTS_DIR"; touch "$ACODE_ARTIFACTS_DIR"'),
        pool_project.add('rm -r "$TMPDIR"; ln -s / "$TMPDIR"'),
    ]
    assert pool_project.wait(*tasks).code == 0
    assert pool_project.worker_pids() == pids
