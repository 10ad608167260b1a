import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from acode.runner.disk import STEP_ENTRIES, DiskWalk
from acode.runner.machine import look
from acode.runner.usage import Sampler, exact_memory

CHILDREN = """
import os, sys, time
if os.fork() == 0:
    x = bytearray(40 << 20)
    print("ready", flush=True)
    time.sleep(60)
sum(range(3_000_000))
os.wait()
"""


@pytest.fixture
def tree() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", CHILDREN], stdout=subprocess.PIPE) as root:
        assert root.stdout is not None
        assert root.stdout.readline() == b"ready\n"
        yield root.pid
        for pid in Sampler().sample({"root": root.pid})["root"].pids:
            os.kill(pid, 9)


@pytest.mark.req("027-FR-062")
def test_one_pass_tells_of_every_tree(tree: int) -> None:
    used = Sampler().sample({"one": tree, "gone": 2**22 + 1, "me": os.getpid()})
    assert set(used) == {"one", "me"}
    (below,) = used["one"].pids
    assert used["one"].memory_bytes > 40 << 20
    assert 0 < used["one"].own_bytes < 40 << 20
    # Whoever is nearest owns a process.
    assert below not in used["me"].pids
    assert tree not in used["me"].pids


def test_what_has_ended_still_counts() -> None:
    sampler = Sampler()
    before = sampler.sample({"me": os.getpid()})["me"].cpu_seconds
    subprocess.run([sys.executable, "-c", "sum(range(10_000_000))"], check=True)
    assert sampler.sample({"me": os.getpid()})["me"].cpu_seconds - before >= 0.05


def test_exact_memory_divides_what_is_shared(tree: int) -> None:
    (below,) = Sampler().sample({"one": tree})["one"].pids
    assert exact_memory((below,)) > 40 << 20
    assert exact_memory((2**22 + 1,)) == 0


def test_nobody_is_looked_into_once_there_is_more_than_enough(tree: int) -> None:
    (below,) = Sampler().sample({"one": tree})["one"].pids
    asked = iter((below, below, tree))
    assert exact_memory(asked, enough=1 << 20) > 40 << 20
    assert list(asked) == [below, tree]


# The disk.


def written(directory: Path, since_ms: int = 0) -> int:
    walk = DiskWalk((str(directory),), since_ms)
    while not walk.is_done:
        walk.step()
    return walk.written_bytes


def test_everything_below_is_added_up(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name in ("one", "a/two", "a/b/three"):
        (tmp_path / name).write_bytes(b"x" * 100_000)
    assert 300_000 <= written(tmp_path) <= 400_000


def test_what_was_there_before_is_not_counted(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"x" * 100_000)
    later = (tmp_path / "old").stat().st_ctime_ns // 1_000_000 + 1
    assert written(tmp_path, later) == 0
    os.utime(tmp_path / "old", (0, 0))
    # A copy that keeps the time of its original was written all the same.
    assert written(tmp_path, later - 1) >= 100_000


def test_links_are_neither_followed_nor_counted_twice(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(b"x" * 1_000_000)
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(large)
    (inside / "loop").symlink_to(inside)
    assert written(inside) < 100_000
    os.link(large, inside / "one")
    os.link(large, inside / "two")
    assert 1_000_000 <= written(inside) < 1_200_000


def test_a_large_tree_is_walked_step_by_step(tmp_path: Path) -> None:
    for number in range(STEP_ENTRIES + 10):
        (tmp_path / str(number)).touch()
    walk = DiskWalk((str(tmp_path),), 0)
    walk.step()
    assert not walk.is_done
    walk.step()
    assert walk.is_done


def test_what_is_gone_or_closed_is_no_trouble(tmp_path: Path) -> None:
    assert written(tmp_path / "nowhere") == 0


# The machine.


def test_the_machine_tells_what_is_left() -> None:
    machine = look("/")
    assert machine.memory_bytes is not None
    assert machine.available_bytes is not None
    assert 0 < machine.available_bytes <= machine.memory_bytes
    assert machine.disk_bytes is not None
    assert machine.disk_free_bytes is not None
    assert machine.disk_free_bytes <= machine.disk_bytes


def test_a_machine_that_tells_nothing_is_no_trouble(tmp_path: Path) -> None:
    assert look(str(tmp_path / "nowhere"), str(tmp_path)) == (None, None, None, None, None)


def test_pressure_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure" / "memory").write_text(
        "some avg10=91.00 avg60=0.00 avg300=0.00 total=1\n"
        "full avg10=42.50 avg60=0.00 avg300=0.00 total=1\n"
    )
    assert look("/", str(tmp_path)).memory_stall_percent == 42.5
