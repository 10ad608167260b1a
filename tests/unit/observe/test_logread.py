"""Reading logs: garbage, parts, packed ones, following through rotations."""

import gzip
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acode.observe.log import LogFile
from acode.observe.logformat import Context
from acode.observe.logparse import LINE_BYTES, LogParser, Record
from acode.observe.logread import FIRST_REST, LONGEST_REST, Part, Tail, follow, read

NOW = 1_700_000_000_000
ATTEMPT = Context("01W", "01T", 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.log"


def log_of(path: Path, max_bytes: int = 1_000, max_files: int = 100) -> LogFile:
    return LogFile(str(path), ATTEMPT, max_bytes=max_bytes, max_files=max_files)


def messages(records: Iterator[Record] | list[Record]) -> list[bytes]:
    return [record.message for record in records]


def parsed(data: bytes, line_bytes: int = LINE_BYTES) -> list[Record]:
    parser = LogParser(line_bytes)
    return [*parser.feed(data), *parser.finish()]


def test_a_record_knows_where_it_comes_from() -> None:
    (record,) = parsed(b"@ 01W 01T 3\n1700000000000 X it broke\n")
    assert record == (NOW, "01W", "01T", 3, "system", "error", b"it broke", False)


@pytest.mark.parametrize(
    ("tag", "stream", "level"),
    [
        ("O", "stdout", "info"),
        ("E", "stderr", "warning"),
        ("D", "system", "debug"),
        ("I", "system", "info"),
        ("W", "system", "warning"),
        ("X", "system", "error"),
    ],
)
def test_every_tag_has_a_stream_and_a_level(tag: str, stream: str, level: str) -> None:
    (record,) = parsed(f"1 {tag} text".encode())
    assert (record.stream, record.level) == (stream, level)


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"nonsense",
        b"12",
        b"12 O",
        b"12 Q text",
        b"12 O- text",
        b"12 + text",
        b"-1 O text",
        b"1_2 O text",
        b"9" * 5_000 + b" O text",
        b"253402300800000 O text",
        b"@ 01X",
        b"@ 01X 01Y many",
        b"\0" * 4096,
        b"\xff" * 200_000,
    ],
)
def test_garbage_is_left_out(garbage: bytes) -> None:
    data = b"@ 01W 01T 1\n1 O before\n" + garbage + b"\n2 O after\n"
    assert parsed(data) == [
        Record(1, *ATTEMPT, "stdout", "info", b"before"),
        Record(2, *ATTEMPT, "stdout", "info", b"after"),
    ]


@given(st.lists(st.binary(max_size=100) | st.sampled_from([b"@ a b 1\n", b"1 O x\n", b"2 E+ y\n"])))
def test_no_bytes_are_too_strange(blocks: list[bytes]) -> None:
    parser = LogParser(10)
    in_blocks = [record for block in blocks for record in parser.feed(block)] + parser.finish()
    assert in_blocks == parsed(b"".join(blocks), 10)


def test_a_torn_last_line_is_shown_as_far_as_it_goes(path: Path) -> None:
    path.write_bytes(b"@ 01W 01T 1\n1 O whole\n2 O ha")
    assert messages(read(str(path))) == [b"whole", b"ha"]


def test_memory_is_bounded_whatever_comes() -> None:
    parser = LogParser()
    most = 0
    for _ in range(200):
        records = parser.feed(b"1 O+ " + b"x" * 65_000 + b"\n")
        most = max([most, *(len(record.message) for record in records)])
        parser.feed(b"?" * 65_000)
        parser.feed(b"\n")
    assert LINE_BYTES < most < LINE_BYTES + 70_000


def test_a_character_is_not_cut_in_two_where_a_line_is() -> None:
    text = "añ€😀" * 50
    data = b"".join(b"1 O+ %b\n" % bytes([byte]) for byte in text.encode())
    records = parsed(data, line_bytes=7)
    assert len(records) > 20
    assert "".join(record.text for record in records) == text


def test_what_is_no_text_is_replaced() -> None:
    (record,) = parsed(b"1 O a\xffb")
    assert record.text == "a\ufffdb"


def test_a_line_can_be_given_out_as_it_comes(path: Path) -> None:
    log, tail = log_of(path), Tail(str(path), line_bytes=0)
    seen = []
    for piece in (b"down", b"load", b"ing\n", b"done\n"):
        log.write("O", piece, NOW)
        seen += [(record.message, record.more) for record in tail.poll()]
    log.close()
    tail.close()
    assert seen == [(b"down", True), (b"load", True), (b"ing", False), (b"done", False)]


def pack(path: Path) -> None:
    status = path.stat()
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    os.utime(packed, ns=(status.st_atime_ns, status.st_mtime_ns))
    path.unlink()


def numbered(log: LogFile, numbers: range) -> list[bytes]:
    for number in numbers:
        log.write("O", b"%d\n" % number, NOW + number)
    log.close()
    return [b"%d" % number for number in numbers]


def test_parts_are_read_from_the_oldest_to_the_newest(path: Path) -> None:
    expected = numbered(log_of(path, 100), range(100))
    for number in (2, 5, 6):
        pack(path.with_name(f"x.log.{number}"))
    assert messages(read(str(path))) == expected


def test_a_packed_twin_of_a_part_is_not_read(path: Path) -> None:
    expected = numbered(log_of(path, 100), range(30))
    path.with_name("x.log.1.gz").write_bytes(b"half a packed fi")
    assert messages(read(str(path))) == expected


def test_a_damaged_packed_part_is_read_as_far_as_it_goes(path: Path) -> None:
    numbered(log_of(path, 1_000_000), range(10_000))
    path.rename(path.with_name("x.log.1"))
    pack(path.with_name("x.log.1"))
    packed = path.with_name("x.log.1.gz")
    packed.write_bytes(packed.read_bytes()[:-1_000])
    log = log_of(path)
    log.write("O", b"new\n", NOW)
    log.close()
    found = messages(read(str(path)))
    assert found[0] == b"0"
    assert found[-1] == b"new"
    assert 1_000 < len(found) < 10_000


def test_parts_that_are_too_old_are_not_even_opened(path: Path) -> None:
    expected = numbered(log_of(path, 100), range(30))
    oldest = path.with_name(f"x.log.{len(os.listdir(path.parent)) - 1}")
    assert oldest.exists()
    oldest.write_bytes(b"@ - - 0\n1 O old\n")
    os.utime(oldest, (NOW / 1000 - 10, NOW / 1000 - 10))
    assert messages(read(str(path)))[0] == b"old"
    recent = messages(read(str(path), since=NOW))
    assert b"old" not in recent
    assert recent == expected[-len(recent) :]


def test_a_log_that_does_not_exist_has_no_lines(path: Path) -> None:
    assert list(read(str(path))) == []


def test_reading_ends_even_if_somebody_writes_faster(path: Path) -> None:
    log = log_of(path, 10_000_000)
    log.write("O", b"x\n" * 50_000, NOW)
    count = 0
    for count, _ in enumerate(read(str(path)), 1):
        if count % 100 == 0:
            log.write("O", b"x\n" * 1_000, NOW)
    log.close()
    assert 50_000 <= count < 52_000


def test_a_reader_that_leaves_early_leaves_nothing_open(path: Path) -> None:
    numbered(log_of(path, 100), range(100))
    before = len(os.listdir("/proc/self/fd"))
    reader = read(str(path))
    next(reader)
    assert len(os.listdir("/proc/self/fd")) > before
    reader.close()  # type: ignore[attr-defined]
    assert len(os.listdir("/proc/self/fd")) == before


class Stage:
    """What happens while a reader rests."""

    def __init__(self, *acts: Callable[[], object]) -> None:
        self.acts = list(acts)
        self.rests: list[float] = []

    def rest(self, seconds: float) -> None:
        self.rests.append(seconds)
        if self.acts:
            self.acts.pop(0)()

    def over(self) -> bool:
        return not self.acts


def followed(path: Path, stage: Stage) -> list[bytes]:
    tail = Tail(str(path))
    try:
        return messages(list(follow(tail, stage.over, stage.rest)))
    finally:
        tail.close()


def test_following_waits_for_the_file_and_for_every_line(path: Path) -> None:
    log = log_of(path)
    stage = Stage(
        lambda: None,
        lambda: log.write("O", b"one\ntw", NOW),
        lambda: log.write("O", b"o\n", NOW),
        lambda: log.write("O", b"three", NOW),
    )
    assert followed(path, stage) == [b"one", b"two", b"three"]
    log.close()


def test_what_is_written_just_before_the_end_is_read(path: Path) -> None:
    log = log_of(path)
    asked = iter([False, True])

    def ended() -> bool:
        log.write("O", b"last words\n", NOW)
        return next(asked)

    tail = Tail(str(path))
    assert len(list(follow(tail, ended, lambda _seconds: None))) == 2
    tail.close()
    log.close()


@pytest.mark.parametrize("lines", [5, 7, 100, 1_000])
def test_following_survives_rotation(path: Path, lines: int) -> None:
    log = log_of(path, 300)

    def write(start: int) -> Callable[[], None]:
        return lambda: numbered(log, range(start, start + lines)) and None

    stage = Stage(*(write(turn * lines) for turn in range(5)))
    assert followed(path, stage) == [b"%d" % number for number in range(5 * lines)]
    assert path.with_name("x.log.1").exists()


def test_following_survives_that_the_part_it_reads_is_packed(path: Path) -> None:
    log = log_of(path, 300)
    first, second = range(40), range(40, 80)

    def write_and_pack() -> None:
        numbered(log, second)
        for part in path.parent.glob("x.log.?"):
            pack(part)

    stage = Stage(lambda: numbered(log, first), write_and_pack)
    assert followed(path, stage) == [b"%d" % number for number in range(80)]


WRITER = """
import sys
from acode.observe.log import LogFile
from acode.observe.logformat import Context

log = LogFile(sys.argv[1], Context("01W", "01T", 1), max_bytes=1_000, max_files=1_000)
for number in range(6_000):
    log.write("O", b"%d\\n" % number, 1_700_000_000_000)
log.close()
"""


def test_following_a_log_that_rotates_all_the_time_misses_nothing(path: Path) -> None:
    tail = Tail(str(path))
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)]) as writer:
        found = messages(list(follow(tail, lambda: writer.poll() is not None, lambda _: None)))
    tail.close()
    assert found == [b"%d" % number for number in range(6_000)]


class Unlucky(Tail):
    """Somebody writes and rotates when this one goes on to the next file."""

    def __init__(self, path: Path, *acts: Callable[[], object]) -> None:
        super().__init__(str(path))
        self.acts = list(acts)

    def _advance(self) -> Part | None:
        if self._part and self.acts:
            self.acts.pop()()
        return super()._advance()


def test_what_is_written_just_before_a_rotation_is_read(path: Path) -> None:
    log = log_of(path, 60)
    numbered(log, range(1))
    tail = Unlucky(path, lambda: numbered(log, range(10, 20)))
    found = messages(tail.poll())
    numbered(log, range(1, 10))
    found += messages(tail.poll())
    tail.close()
    assert found == [b"%d" % number for number in range(20)]


def test_following_goes_on_with_what_is_left_if_it_was_too_slow(path: Path) -> None:
    log = log_of(path, 100, max_files=3)
    stage = Stage(lambda: numbered(log, range(3)), lambda: numbered(log, range(3, 100)))
    found = followed(path, stage)
    numbers = [int(message) for message in found]
    assert numbers == sorted(set(numbers))
    assert (numbers[:3], numbers[-1]) == ([0, 1, 2], 99)
    assert len(numbers) < 50


def test_following_goes_on_when_the_file_was_removed(path: Path) -> None:
    log = log_of(path)
    stage = Stage(
        lambda: numbered(log, range(3)),
        path.unlink,
        lambda: numbered(log, range(3, 6)),
    )
    assert followed(path, stage) == [b"%d" % number for number in range(6)]


def test_following_rests_longer_while_nothing_happens(path: Path) -> None:
    log = log_of(path)
    stage = Stage(*[lambda: None] * 10, lambda: log.write("O", b"x\n", NOW), *[lambda: None] * 3)
    followed(path, stage)
    log.close()
    assert stage.rests[9] == LONGEST_REST
    assert stage.rests[11] == FIRST_REST
    assert stage.rests[12] < LONGEST_REST


def test_one_can_begin_at_the_end(path: Path) -> None:
    log = log_of(path, 300)
    numbered(log, range(100))
    tail = Tail(str(path), from_end=True)
    assert list(tail.poll()) == []
    numbered(log, range(100, 200))
    assert messages(tail.poll()) == [b"%d" % number for number in range(100, 200)]
    tail.close()


def test_a_poll_that_is_left_early_loses_nothing(path: Path) -> None:
    numbered(log_of(path), range(100))
    tail = Tail(str(path))
    begin = messages(list(islice(tail.poll(), 10)))
    assert begin + messages(tail.poll()) == [b"%d" % number for number in range(100)]
    tail.close()


def test_a_poll_can_be_kept_short(path: Path) -> None:
    log = log_of(path, 10_000_000)
    log.write("O", b"x\n" * 100_000, NOW)
    log.close()
    tail = Tail(str(path))
    first = len(list(tail.poll(blocks=1)))
    assert 0 < first < 10_000
    assert first + len(list(tail.poll())) == 100_000
    tail.close()
