"""Old parts of logs are packed, and removed when they are too many or too old."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from acode.observe.log import LogFile
from acode.observe.logcare import DAY_MS, care
from acode.observe.logformat import Context
from acode.observe.logparts import renaming
from acode.observe.logread import read
from acode.settings import Settings

NOW = 1_700_000_000_000
ATTEMPT = Context("01W", "01T", 1)


class Rules(NamedTuple):
    max_files: int = 5
    retention_days: float = 7


def log_in(directory: Path, name: str = "x", max_bytes: int = 1_000) -> LogFile:
    return LogFile(f"{directory}/{name}.log", ATTEMPT, max_bytes=max_bytes)


def fill(directory: Path, name: str = "x", lines: int = 300) -> None:
    """A log with all its parts, each as old as the present."""
    log = log_in(directory, name)
    for number in range(lines):
        log.write("O", b"line %d\n" % number, NOW)
    log.close()
    for path in directory.iterdir():
        age(path, 0)


def age(path: Path, days: float) -> None:
    moment = NOW / 1000 - days * DAY_MS / 1000
    os.utime(path, (moment, moment))


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


def messages(directory: Path) -> list[bytes]:
    return [record.message for record in read(f"{directory}/x.log")]


def test_old_parts_are_packed_and_read_as_before(tmp_path: Path) -> None:
    fill(tmp_path)
    before = messages(tmp_path)
    done = care(str(tmp_path), Rules(), NOW)
    assert names(tmp_path) == ["x.log", *(f"x.log.{number}.gz" for number in range(1, 5))]
    assert messages(tmp_path) == before
    assert done.compressed == [f"{tmp_path}/x.log.{number}" for number in range(1, 5)]
    assert done.removed == []


def test_packing_keeps_the_time_and_the_privacy(tmp_path: Path) -> None:
    fill(tmp_path)
    part = tmp_path / "x.log.1"
    age(part, 1.5)
    moment = part.stat().st_mtime_ns
    care(str(tmp_path), Rules(), NOW)
    packed = (tmp_path / "x.log.1.gz").stat()
    assert (packed.st_mtime_ns, packed.st_mode & 0o777) == (moment, 0o600)


def test_nothing_is_done_twice(tmp_path: Path) -> None:
    fill(tmp_path)
    care(str(tmp_path), Rules(), NOW)
    assert care(str(tmp_path), Rules(), NOW) == ([], [])


def test_parts_that_are_too_many_are_removed(tmp_path: Path) -> None:
    fill(tmp_path)
    done = care(str(tmp_path), Rules(max_files=3), NOW)
    assert names(tmp_path) == ["x.log", "x.log.1.gz", "x.log.2.gz"]
    assert done.removed == [f"{tmp_path}/x.log.3", f"{tmp_path}/x.log.4"]


def test_parts_that_are_too_old_are_removed(tmp_path: Path) -> None:
    fill(tmp_path)
    age(tmp_path / "x.log.3", 7.01)
    age(tmp_path / "x.log.2", 6.99)
    done = care(str(tmp_path), Rules(), NOW)
    assert done.removed == [f"{tmp_path}/x.log.3"]
    assert "x.log.2.gz" in names(tmp_path)


def test_a_file_that_may_still_be_written_to_is_never_touched(tmp_path: Path) -> None:
    fill(tmp_path, lines=10)
    age(tmp_path / "x.log", 100)
    assert care(str(tmp_path), Rules(max_files=1), NOW) == ([], [])
    assert names(tmp_path) == ["x.log"]


def test_an_old_log_that_nobody_writes_is_removed(tmp_path: Path) -> None:
    for name in ("worker-01A", "worker-01B", "worker-01C"):
        fill(tmp_path, name, lines=10)
    age(tmp_path / "worker-01A.log", 8)
    age(tmp_path / "worker-01B.log", 8)
    done = care(str(tmp_path), Rules(), NOW, is_over=lambda name: name != "worker-01B")
    assert done.removed == [f"{tmp_path}/worker-01A.log"]
    assert names(tmp_path) == ["worker-01B.log", "worker-01C.log"]


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    others = ["notes.txt", "x.log.old", "x.log.1.bak", "x.log.0", "log.1", "x.log.1.gz.2"]
    for name in others:
        (tmp_path / name).write_text("mine")
        age(tmp_path / name, 100)
    assert care(str(tmp_path), Rules(), NOW, is_over=lambda _name: True) == ([], [])
    assert names(tmp_path) == sorted(others)


def test_a_directory_that_is_not_there_needs_no_care(tmp_path: Path) -> None:
    assert care(f"{tmp_path}/none", Rules(), NOW) == ([], [])


def test_the_settings_are_the_rules(tmp_path: Path) -> None:
    fill(tmp_path)
    assert len(care(str(tmp_path), Settings().logging, NOW).compressed) == 4


def test_what_an_interrupted_packing_left_is_put_right(tmp_path: Path) -> None:
    fill(tmp_path)
    before = messages(tmp_path)
    (tmp_path / "x.log.1.gz").write_bytes(b"half a packed fi")
    (tmp_path / "x.log.2.gz.tmp").write_bytes(b"half a draft")
    care(str(tmp_path), Rules(), NOW)
    assert names(tmp_path) == ["x.log", *(f"x.log.{number}.gz" for number in range(1, 5))]
    assert messages(tmp_path) == before


def test_care_does_not_wait_for_a_log_that_is_being_rotated(tmp_path: Path) -> None:
    fill(tmp_path)
    with renaming(f"{tmp_path}/x.log"):
        assert care(str(tmp_path), Rules(max_files=2), NOW) == ([], [])
    assert names(tmp_path) == ["x.log", *(f"x.log.{number}" for number in range(1, 5))]


def test_a_disk_without_room_leaves_everything_as_it_was(tmp_path: Path) -> None:
    fill(tmp_path)
    before = messages(tmp_path)
    for number in range(1, 5):
        # A directory in the place of the draft fails as a full disk does.
        (tmp_path / f"x.log.{number}.gz.tmp").mkdir()
    assert care(str(tmp_path), Rules(), NOW).compressed == []
    assert messages(tmp_path) == before


WRITER = """
import sys
from acode.observe.log import LogFile
from acode.observe.logformat import Context

log = LogFile(sys.argv[1], Context("01W", "01T", 1), max_bytes=20_000, max_files=100)
for number in range(60_000):
    log.write("O", b"%d\\n" % number, 1_700_000_000_000)
log.close()
"""


def test_packing_while_a_worker_rotates_loses_nothing(tmp_path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, f"{tmp_path}/x.log"])
    packed = 0
    while writer.poll() is None:
        packed += len(care(str(tmp_path), Rules(max_files=100), NOW).compressed)
    assert writer.returncode == 0
    assert packed
    assert messages(tmp_path) == [b"%d" % number for number in range(60_000)]
