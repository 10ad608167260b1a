"""Writing logs: the same lines come back, rotation, full disks, memory."""

import errno
import os
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acode.observe.log import LogFile, OutputLog
from acode.observe.logformat import PIECE_BYTES, Context, chunks
from acode.observe.logparts import renaming
from acode.observe.logread import read

NOW = 1_700_000_000_000
WORKER = Context("01W")
ATTEMPT = Context("01W", "01T", 1)


def messages(path: Path) -> list[bytes]:
    return [record.message for record in read(str(path))]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "x.log"


def test_a_log_looks_as_documented(path: Path) -> None:
    log = LogFile(str(path), ATTEMPT)
    log.write("O", b"one\ntwo\nthr", NOW)
    log.write("E", b"oops\n", NOW + 1)
    log.write("O", b"ee\n", NOW + 2)
    log.context = WORKER
    log.write("I", b"done\n", NOW + 3)
    log.close()
    assert path.read_bytes() == (
        b"@ 01W 01T 1\n"
        b"1700000000000 O one\n"
        b"1700000000000 O two\n"
        b"1700000000000 O+ thr\n"
        b"1700000000001 E oops\n"
        b"1700000000002 O ee\n"
        b"@ 01W - 0\n"
        b"1700000000003 I done\n"
    )
    assert [(record.stream, record.message) for record in read(str(path))] == [
        ("stdout", b"one"),
        ("stdout", b"two"),
        ("stderr", b"oops"),
        ("stdout", b"three"),
        ("system", b"done"),
    ]


def lines_of(output: bytes) -> list[bytes]:
    *lines, rest = output.split(b"\n")
    return [*lines, rest] if rest else lines


nasty = st.binary(max_size=40) | st.sampled_from(
    [b"\n", b"\n\n", b"\0", b"\xff\xfe", b"@ a b 1\n", b"1700000000000 O x\n", b"\r\n", b" ", b"+"]
)


@given(
    st.lists(st.tuples(st.sampled_from("OE"), nasty), max_size=30),
    st.integers(min_value=20, max_value=2_000),
)
def test_any_bytes_in_any_pieces_come_back_as_the_same_lines(
    pieces: list[tuple[str, bytes]], max_bytes: int
) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory, "x.log")
        log = LogFile(str(path), ATTEMPT, max_bytes=max_bytes, max_files=1_000)
        for tag, piece in pieces:
            log.write(tag, piece, NOW)
        log.close()
        records = list(read(str(path)))
    for tag, stream in (("O", "stdout"), ("E", "stderr")):
        output = b"".join(piece for name, piece in pieces if name == tag)
        assert [each.message for each in records if each.stream == stream] == lines_of(output)
    assert {each[1:4] for each in records} <= {ATTEMPT}


@given(st.lists(st.integers(min_value=1, max_value=200_000), min_size=1, max_size=4))
def test_a_long_line_is_stored_in_pieces_and_none_is_too_long(cuts: list[int]) -> None:
    line = bytes(range(11, 256)) * 2_000
    with TemporaryDirectory() as directory:
        path = Path(directory, "x.log")
        log = LogFile(str(path), ATTEMPT)
        for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(line)], strict=True):
            log.write("O", line[start:end], NOW)
        log.write("O", b"\nnext\n", NOW)
        log.close()
        assert max(map(len, path.read_bytes().split(b"\n"))) <= PIECE_BYTES + 30
        *parts, last = read(str(path))
    assert b"".join(part.message for part in parts) == line
    assert [part.more for part in parts] == [True] * (len(parts) - 1) + [False]
    assert (last.message, last.more) == (b"next", False)


def test_a_task_that_says_nothing_leaves_no_file(tmp_path: Path) -> None:
    log = OutputLog(str(tmp_path), "01W")
    log.begin("01T", 1)
    log.end()
    log.close()
    assert list(tmp_path.iterdir()) == []


def test_output_goes_to_the_log_of_the_worker_and_of_the_task(tmp_path: Path) -> None:
    log = OutputLog(str(tmp_path), "01W")
    log.write("I", b"worker started\n", NOW)
    for attempt, task in enumerate(("01A", "01B"), 1):
        log.begin(task, attempt)
        log.write("O", f"output of {task}".encode(), NOW + attempt)
        log.end()
    log.write("I", b"worker stopped\n", NOW + 9)
    log.close()
    of_worker = [(*each[1:4], each.message) for each in read(f"{tmp_path}/workers/worker-01W.log")]
    assert of_worker == [
        ("01W", None, 0, b"worker started"),
        ("01W", "01A", 1, b"output of 01A"),
        ("01W", "01B", 2, b"output of 01B"),
        ("01W", None, 0, b"worker stopped"),
    ]
    assert [(*each[1:4], each.message) for each in read(f"{tmp_path}/tasks/01B.log")] == [
        ("01W", "01B", 2, b"output of 01B")
    ]


def test_a_later_attempt_goes_on_in_the_same_file_with_a_line_of_its_own(tmp_path: Path) -> None:
    for worker in ("01V", "01W"):
        log = OutputLog(str(tmp_path), worker)
        log.begin("01T", 1)
        log.write("O", b"cut off", NOW)
        log.close()
    assert messages(tmp_path / "tasks" / "01T.log") == [b"cut off", b"cut off"]


def test_what_a_dead_worker_left_unfinished_is_not_continued(path: Path) -> None:
    for word in (b"first", b"second"):
        log = LogFile(str(path), ATTEMPT)
        log.write("O", word, NOW)
        log.close()
    assert messages(path) == [b"first", b"second"]


def test_a_record_that_was_cut_by_a_crash_does_not_spoil_the_next(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"@ 01V 01T 1\n1700000000000 O whole\n17000000000")
    log = LogFile(str(path), ATTEMPT)
    log.write("O", b"next\n", NOW)
    log.close()
    found = [(record.worker_id, record.message) for record in read(str(path))]
    assert found == [("01V", b"whole"), ("01W", b"next")]


def test_logs_are_for_the_owners_eyes_and_not_inherited(path: Path) -> None:
    log = LogFile(str(path), WORKER)
    log.write("I", b"secret\n", NOW)
    assert path.stat().st_mode & 0o777 == 0o600
    (descriptor,) = [int(name) for name in os.listdir("/proc/self/fd") if _leads_to(name, path)]
    assert not os.get_inheritable(descriptor)
    log.close()


def _leads_to(name: str, path: Path) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{name}") == str(path)
    except FileNotFoundError:
        return False


def files_of(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir())


@pytest.mark.req("027a-FR-042")
def test_the_log_of_a_worker_is_rotated(tmp_path: Path) -> None:
    log = OutputLog(str(tmp_path), "01W", max_bytes=10_000, max_files=5)
    for number in range(3_000):
        log.write("O", f"line {number}\n".encode(), NOW)
    log.close()
    path = tmp_path / "workers" / "worker-01W.log"
    assert files_of(path) == [path.name, *(f"{path.name}.{number}" for number in range(1, 5))]
    assert all(file.stat().st_size <= 10_000 for file in path.parent.iterdir())
    assert all(file.read_bytes().startswith(b"@ 01W - 0\n") for file in path.parent.iterdir())
    kept = messages(path)
    assert kept == [f"line {number}".encode() for number in range(3_000 - len(kept), 3_000)]
    assert len(kept) > 1_200


def test_rotation_cuts_no_line_in_two(path: Path) -> None:
    log = LogFile(str(path), ATTEMPT, max_bytes=100, max_files=100)
    for _ in range(50):
        log.write("O", b"word ", NOW)
    log.close()
    assert len(files_of(path)) > 5
    assert messages(path) == [b"word " * 50]


def test_a_log_with_a_single_file_begins_anew(path: Path) -> None:
    log = LogFile(str(path), ATTEMPT, max_bytes=50, max_files=1)
    for number in range(5):
        log.write("O", f"line {number} {'x' * 20}\n".encode(), NOW)
    log.close()
    assert files_of(path) == ["x.log"]
    assert messages(path) == [b"line 4 " + b"x" * 20]


def test_packed_parts_grow_older_too(path: Path) -> None:
    log = LogFile(str(path), ATTEMPT, max_bytes=10)
    log.write("O", b"a\n", NOW)
    for name in ("x.log.1.gz", "x.log.2.gz", "x.log.4.gz"):
        path.with_name(name).write_bytes(name.encode())
    log.write("O", b"b\n", NOW)
    log.close()
    assert files_of(path) == ["x.log", "x.log.1", "x.log.2.gz", "x.log.3.gz"]
    assert path.with_name("x.log.3.gz").read_bytes() == b"x.log.2.gz"


def test_nobody_waits_for_the_right_to_rename(path: Path) -> None:
    log = LogFile(str(path), ATTEMPT, max_bytes=30)
    log.write("O", b"a\n", NOW)
    with renaming(str(path)) as mine:
        assert mine
        log.write("O", b"b\n", NOW)
        assert files_of(path) == ["x.log"]
    log.write("O", b"c\n", NOW)
    log.close()
    assert files_of(path) == ["x.log", "x.log.1"]
    assert messages(path) == [b"a", b"b", b"c"]


def test_a_log_directory_that_was_removed_is_made_again(path: Path) -> None:
    log = LogFile(str(path), ATTEMPT)
    log.write("O", b"a\n", NOW)
    log.close()
    path.unlink()
    path.parent.rmdir()
    log.write("O", b"b\n", NOW)
    log.close()
    assert messages(path) == [b"b"]


FILL = """
import os, sys
from acode.observe.log import LogFile
from acode.observe.logformat import Context
from acode.observe.logread import read

log, ballast = LogFile("x.log", Context("01W", "01T", 1)), "ballast"
log.write("O", b"begin\\nhalf a ", 1)
with open(ballast, "wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(4096))
    except OSError:
        pass
for number in range(100):
    log.write("O", b"x" * 999 + b"\\n", 2)
os.unlink(ballast)
log.write("O", b"line\\nend\\n", 3)
log.close()
for record in read("x.log"):
    print(record.stream, record.text.replace("x", "") or record.text.count("x"))
"""


def in_a_small_file_system(directory: Path, script: str) -> list[str]:
    """Run Python in a tmpfs of 256 KB that only it can see."""
    mount = f"mount -t tmpfs -o size=256k acode {directory} && cd {directory} && exec "
    unshare = ("unshare", "--user", "--map-root-user", "--mount")
    done = subprocess.run(
        [*unshare, "sh", "-c", f'{mount} "$@"', "sh", sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.needs("user namespaces")
def test_a_full_disk_costs_output_and_nothing_else(tmp_path: Path) -> None:
    lines = in_a_small_file_system(tmp_path, FILL)
    begin, *whole, cut, note, line, end = lines
    assert (begin, line, end) == ("stdout begin", "stdout line", "stdout end")
    assert whole[0].startswith("stdout half a")
    assert note.startswith("system ")
    lost = int(note.split()[1])
    assert note == f"system {lost} bytes of output lost: no space on disk"
    kept = sum(int(each.split()[1]) for each in [*whole[1:], cut])
    assert abs(100_000 - lost - kept - len(whole)) < 1_100
    assert sum("lost" in each for each in lines) == 1


CUT = """
import resource, signal
from acode.observe.log import LogFile
from acode.observe.logformat import Context
from acode.observe.logread import read

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log = LogFile("x.log", Context("01W", "01T", 1))
log.write("O", b"a line\\nan unfinished ", 1)
resource.setrlimit(resource.RLIMIT_FSIZE, (200, resource.RLIM_INFINITY))
log.write("O", b"line\\n" + b"y" * 500, 2)
log.write("O", b"lost\\n", 3)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log.write("O", b"again\\n", 4)
log.close()
print(*(f"{record.level} {record.text}" for record in read("x.log")), sep="\\n")
"""


def test_a_write_that_is_cut_short_is_told_of_and_mixed_with_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CUT], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    whole, unfinished, cut, note, last = done.stdout.splitlines()
    assert (whole, unfinished, last) == ("info a line", "info an unfinished line", "info again")
    assert set(cut.removeprefix("info ")) == {"y"}
    level, lost, words = note.split(" ", 2)
    assert (level, words) == ("warning", f"bytes of output lost: {os.strerror(errno.EFBIG)}")
    # Where a record is cut, the count is in proportion.
    assert abs(int(lost) + cut.count("y") - 505) < 20


def test_what_was_lost_is_told_when_the_log_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "x.log"
    path.parent.write_text("in the way")
    log = LogFile(str(path), ATTEMPT)
    log.write("O", b"nobody reads this\n", NOW)
    path.parent.unlink()
    log.close()
    assert messages(path) == [b"18 bytes of output lost: Not a directory"]


def test_chunks_are_formatted_once_and_are_small() -> None:
    pieces = list(chunks("O", b"x" * (3 * PIECE_BYTES + 1), NOW))
    assert [piece.size for piece in pieces] == [PIECE_BYTES] * 3 + [1]


HEAVY = {"asyncio", "logging", "shutil", "subprocess", "datetime", "gzip", "tempfile", "msgspec"}


def test_a_writer_imports_nothing_heavy() -> None:
    script = "import sys, acode.observe.log; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "acode.observe.log" in done.stdout
    assert not HEAVY & set(done.stdout.split())


def test_only_one_write_is_made_for_a_chunk(tmp_path: Path) -> None:
    log = LogFile(str(tmp_path / "x.log"), ATTEMPT)
    log.write("O", b"open\n", NOW)
    before = _writes()
    for _ in range(10):
        log.write("O", b"line\n" * 1_000, NOW)
    assert _writes() - before <= 12
    log.close()


def _writes() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("syscw"))


def test_lines_of_streams_that_alternate_are_put_together(path: Path) -> None:
    log = LogFile(str(path), ATTEMPT)
    for letter in b"abc":
        log.write("O", bytes([letter]), NOW)
        log.write("E", bytes([letter - 32]), NOW)
    log.write("E", b"\n", NOW)
    log.write("O", b"\n", NOW)
    log.close()
    ends = [list(group) for _, group in groupby(messages(path))]
    assert ends == [[b"ABC"], [b"abc"]]
