"""Process trees: who is below, and who is hit."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from acode.clock import Deadline
from acode.runner.grip import grip
from acode.runner.identity import identify, is_alive, myself, start_time
from acode.runner.tree import descendants, kill_marked, signal_below
from tests.hopper import HOPPER, has_started, is_free

FAMILY = "sleep 600 & setsid sleep 600 & echo ready; wait"


@contextmanager
def family() -> Iterator[list[psutil.Process]]:
    """A shell and its two children, of which one leads a session of its own."""
    with subprocess.Popen(["sh", "-c", FAMILY], stdout=subprocess.PIPE) as head:
        assert head.stdout is not None
        head.stdout.readline()
        known = [psutil.Process(head.pid), *psutil.Process(head.pid).children()]
        try:
            yield known
        finally:
            for process in known:
                with suppress(psutil.NoSuchProcess):
                    process.kill()


def test_everything_below_is_found_and_signalled() -> None:
    with family() as (head, *below):
        assert sorted(descendants(head.pid)) == sorted((head.pid, each.pid) for each in below)
        head.suspend()
        assert len(signal_below(head.pid, signal.SIGKILL)) == 2
        head.resume()
        _, alive = psutil.wait_procs(below, timeout=30)
        assert not alive


def test_the_spared_are_not_hit() -> None:
    with family() as (head, spared, other):
        assert signal_below(head.pid, signal.SIGKILL, spare=[spared.pid]) == {other.pid}
        other.wait(30)
        assert start_time(spared.pid) is not None


KEEPER = """
import os, subprocess, sys
from acode.runner.tree import become_subreaper, kill_below, reap_children
become_subreaper()
hopper = subprocess.Popen([sys.executable, *sys.argv[1:]])
while not os.path.exists(sys.argv[3] + ".started"):
    os.sched_yield()
kill_below(os.getpid())
reap_children()
"""


def test_whoever_forks_and_ends_all_the_time_is_killed_with_what_is_below(tmp_path: Path) -> None:
    for turn in range(10):
        lock = tmp_path / str(turn)
        words = [sys.executable, "-c", KEEPER, "-c", HOPPER, str(lock), "session"]
        subprocess.run(words, check=True)
        assert is_free(lock)


def test_whoever_forks_and_ends_all_the_time_is_killed_by_its_mark(tmp_path: Path) -> None:
    for turn in range(10):
        lock, marker = tmp_path / str(turn), f"MARK_{os.getpid()}={turn}"
        words = [sys.executable, "-c", HOPPER, str(lock), "session"]
        deadline = Deadline(30)
        with subprocess.Popen(words, env=os.environ | dict([marker.split("=")])):
            while not has_started(lock):
                assert deadline.rest(0.001)
            kill_marked(marker.encode())
        while not is_free(lock):
            assert deadline.rest(0.01)


def test_only_the_marked_are_killed(tmp_path: Path) -> None:
    marker = f"MARK_{os.getpid()}=a"
    with (
        subprocess.Popen(["sleep", "600"], env={"X": "1", **dict([marker.split("=")])}) as marked,
        subprocess.Popen(["sleep", "600"], env={"Y": marker + "b"}) as other,
    ):
        try:
            for process in (marked, other):
                wait_for_environment(process.pid)
            assert kill_marked(marker.encode()) == 1
            assert marked.wait(30) == -signal.SIGKILL
            assert other.poll() is None
        finally:
            marked.kill()
            other.kill()


def wait_for_environment(pid: int) -> None:
    """A child that becomes another program has none for a moment."""
    deadline = Deadline(30)
    while not Path(f"/proc/{pid}/environ").read_bytes():
        assert deadline.rest(0.001)


def test_a_process_is_known_by_more_than_its_pid() -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        identity = identify(process.pid)
        assert identity is not None
        assert is_alive(identity)
        stranger = type(identity)(identity.pid, identity.start_time + 1, identity.boot_id)
        assert not is_alive(stranger)
        assert not is_alive(type(identity)(identity.pid, identity.start_time, "another boot"))
        assert grip(stranger) is None
        process.kill()
    assert not is_alive(identity)
    assert identify(process.pid) is None
    assert grip(identity) is None


def test_a_zombie_is_not_alive() -> None:
    pid = os.posix_spawn("/bin/true", ["true"], {})
    deadline = Deadline(30)
    while start_time(pid) is not None:
        assert deadline.rest(0.01)
    assert identify(pid) is None
    os.waitpid(pid, 0)


def test_a_name_cannot_confuse_the_reader(tmp_path: Path) -> None:
    program = tmp_path / ") Z 1 (x"
    program.symlink_to(sys.executable)
    with subprocess.Popen([program, "-c", "import time; time.sleep(600)"]) as process:
        assert identify(process.pid) is not None
        process.kill()


def test_a_grip_waits_for_the_end() -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        identity = identify(process.pid)
        assert identity is not None
        held = grip(identity)
        assert held is not None
        with held:
            assert not held.ended(0)
            held.signal(signal.SIGKILL)
            assert held.ended(30)
            process.wait()
            held.signal(signal.SIGKILL)  # to nobody


def test_we_know_ourselves() -> None:
    assert is_alive(myself())
