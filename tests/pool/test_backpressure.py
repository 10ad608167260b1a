"""No further task begins over the pool's limits, or while the machine has too little left."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pool.conftest import PoolProject, eventually
from tests.pool.pressure import begun_again, held_back, told_once
from tests.pool.test_limits import BOTH, PLENTY, python

ROOT = Path(__file__).parents[2]

HUNGRY = (
    "import os, time; x = bytearray(150 << 20)\nwhile not os.path.exists({go!r}): time.sleep(0.02)"
)
BUSY = "import os\nwhile not os.path.exists({go!r}): pass"


@BOTH
@pytest.mark.req(
    "forge-19", "027-FR-067", "027-FR-068", "027-FR-069", "027-FR-070", "027-FR-071", "027-FR-072"
)
@pytest.mark.req("027-AC-010")
@pytest.mark.parametrize(
    ("limit", "most", "hog", "resource", "used"),
    [
        ("totalMemoryMb", 100, HUNGRY, "memoryBytes", 150 << 20),
        ("totalCpuPercent", 30, BUSY, "cpuPercent", 30),
    ],
    ids=["memory", "cpu"],
)
def test_a_pool_over_its_limit_pauses_and_goes_on_by_itself(
    pool_project: PoolProject, how: str, limit: str, most: int, hog: str, resource: str, used: int
) -> None:
    pool_project.env["ACODE_CGROUPS"] = how
    pool_project.configure(workers={"poolLimits": {limit: most}, "limits": PLENTY})
    pool_project.start(count=2)
    go = pool_project.root / "go"
    large = pool_project.add(python(hog.format(go=str(go))))
    waiting = held_back(pool_project, f"workers.poolLimits.{limit} is {most}")
    eventually(lambda: pool_project.pool()["resources"][resource] > used)
    assert pool_project.status(waiting) == "pending"
    go.touch()
    assert pool_project.wait(large).code == 0
    begun_again(pool_project, waiting)
    told_once(pool_project)


MACHINE = """
mount -t tmpfs -o size=256m tmpfs "$1" && mount --bind "$2/meminfo" /proc/meminfo &&
mount --bind "$2/stall" /proc/pressure/memory && exec {program} "$1" "$2"
"""


@pytest.mark.req("forge-19", "027-FR-070", "027-FR-071")
@pytest.mark.needs("user namespaces")
@pytest.mark.parametrize("gauge", ["memory", "stall", "disk"])
def test_a_pool_leaves_the_machine_usable(tmp_path: Path, gauge: str) -> None:
    disk, told = tmp_path / "disk", tmp_path / "told"
    disk.mkdir()
    told.mkdir()
    (told / "meminfo").write_bytes(Path("/proc/meminfo").read_bytes())
    (told / "stall").write_bytes(Path("/proc/pressure/memory").read_bytes())
    program = shlex.join([sys.executable, "-m", "tests.pool.on_a_scarce_machine", gauge])
    done = subprocess.run(
        [*("unshare", "--user", "--map-root-user", "--mount", "sh", "-c"),
         *(MACHINE.format(program=program), "sh", str(disk), str(told))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
