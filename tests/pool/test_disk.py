"""A disk without room: the pool waits, loses nothing, and goes on when there is some again."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOUNT = 'mount -t tmpfs -o size=4m tmpfs "$1" && shift && exec "$@"'


@pytest.mark.req("027-NFR-009")
@pytest.mark.needs("user namespaces")
def test_a_pool_on_a_full_disk_waits_for_room(tmp_path: Path) -> None:
    disk, outside = tmp_path / "disk", tmp_path / "outside"
    disk.mkdir()
    outside.mkdir()
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    program = [sys.executable, "-m", "tests.pool.on_a_small_disk", str(disk), str(outside)]
    done = subprocess.run(
        [*unshare, "sh", "-c", MOUNT, "sh", str(disk), *program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
