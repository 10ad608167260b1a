"""A disk without room: clear refusals, nothing lost, and on it goes when there is some again."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MOUNT = 'mount -t tmpfs -o "$1" tmpfs "$2" && shift 2 && exec "$@"'


def told(directory: Path, scenario: str, options: str = "size=1m") -> list[str]:
    """What a program on a file system of its own says."""
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    mount = ["sh", "-c", MOUNT, "sh", options, str(directory)]
    program = [sys.executable, "-m", "tests.unit.store.on_a_small_disk", str(directory), scenario]
    done = subprocess.run(
        [*unshare, *mount, *program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.needs("user namespaces")
@pytest.mark.parametrize("how", ["grouped", "direct"])
def test_a_full_disk_refuses_new_tasks_and_loses_none(tmp_path: Path, how: str) -> None:
    assert told(tmp_path, how) == ["DiskFull", "True", "True", "True", "the end"]


@pytest.mark.needs("user namespaces")
def test_a_full_disk_refuses_every_write_and_a_lease_outlives_it(tmp_path: Path) -> None:
    *refusals, files, end = told(tmp_path, "everything")
    assert refusals == ["DiskFull"] * 5
    assert files == str(["ballast", "queue.db", "queue.db-shm", "queue.db-wal"])
    assert end == "the end"


@pytest.mark.needs("user namespaces")
def test_a_store_cannot_be_made_on_a_full_disk_and_is_made_when_there_is_room(
    tmp_path: Path,
) -> None:
    assert told(tmp_path, "opening") == ["DiskFull", "DiskFull", "the end"]


@pytest.mark.needs("user namespaces")
def test_a_read_only_file_system_is_refused(tmp_path: Path) -> None:
    assert told(tmp_path, "read-only", "ro") == ["StoreUnusable", "the end"]
