"""Many logs as one stream: order, filters, repeated messages, newcomers."""

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acode.clock import ManualClock
from acode.ids import IdSource
from acode.observe.log import LogFile
from acode.observe.logformat import Context
from acode.observe.logparse import Record
from acode.observe.multiplex import (
    TELL_AGAIN_MS,
    WINDOW_MS,
    Multiplexer,
    Repeats,
    Source,
    Wanted,
    Window,
    merge,
    worker_source,
)

NOW = 1_700_000_000_000


def record(at: int, message: str = "x", worker: str = "01W", level: str = "info") -> Record:
    return Record(at, worker, "01T", 1, "stdout", level, message.encode())


def texts(records: Iterator[Record] | list[Record]) -> list[str]:
    return [each.text for each in records]


streams = st.lists(
    st.lists(st.integers(min_value=0, max_value=9), max_size=6).map(sorted), max_size=5
)


@given(streams)
def test_streams_are_merged_by_time_and_stay_in_order_where_times_are_equal(
    times: list[list[int]],
) -> None:
    sources = [
        (min(moments, default=0), iter([record(at, f"{at} {place}") for at in moments]))
        for place, moments in enumerate(times)
    ]
    pairs = sorted((at, place) for place, moments in enumerate(times) for at in moments)
    assert texts(merge(sources)) == [f"{at} {place}" for at, place in pairs]


@given(st.lists(st.lists(st.integers(min_value=0, max_value=9), max_size=6), max_size=4))
def test_each_stream_keeps_its_own_order_even_if_its_clock_went_back(
    times: list[list[int]],
) -> None:
    sources = [
        (0, iter([record(at, f"{place} {number}") for number, at in enumerate(moments)]))
        for place, moments in enumerate(times)
    ]
    merged = texts(merge(sources))
    for place, moments in enumerate(times):
        own = [text for text in merged if text.startswith(f"{place} ")]
        assert own == [f"{place} {number}" for number in range(len(moments))]


def test_a_stream_is_begun_when_its_time_comes() -> None:
    begun = []

    def stream(start: int) -> Iterator[Record]:
        begun.append(start)
        yield record(start)
        yield record(start + 5)

    merged = merge([(start, stream(start)) for start in (100, 0, 50)])
    assert [next(merged).at, next(merged).at] == [0, 5]
    assert begun == [0]
    assert [each.at for each in merged] == [50, 55, 100, 105]


def test_a_worker_is_no_older_than_its_id() -> None:
    assert worker_source("x.log", IdSource().new(NOW)).starts_at == NOW
    assert worker_source("x.log", "no-id").starts_at == 0


def test_a_window_puts_late_lines_in_their_place() -> None:
    window = Window()
    window.add("b", record(20, "second"), NOW)
    window.add("a", record(10, "first"), NOW + 50)
    window.add("a", record(20, "equal, but of the earlier source"), NOW + 50)
    assert list(window.due(NOW + WINDOW_MS - 1)) == []
    assert texts(window.due(NOW + WINDOW_MS + 50)) == [
        "first",
        "equal, but of the earlier source",
        "second",
    ]
    assert len(window) == 0


def test_a_window_keeps_the_order_of_a_source_and_outlives_a_clock_that_goes_back() -> None:
    window = Window()
    for number, at in enumerate((30, 10, 20)):
        window.add("a", record(at, str(number)), NOW)
    assert texts(window.due(NOW - 3_600_000)) == ["0", "1", "2"]


def collapsed(*records: Record) -> list[str]:
    repeats = Repeats()
    shown = [shown for each in records for shown in repeats.feed(each)]
    return texts([*shown, *repeats.flush()])


def test_a_repeated_message_is_told_once_and_counted() -> None:
    assert collapsed(*(record(at, "same") for at in range(4)), record(4, "other")) == [
        "same",
        "last message repeated 3 times",
        "other",
    ]
    assert collapsed(record(0, "same"), record(1, "same")) == [
        "same",
        "last message repeated 1 time",
    ]


def test_the_count_has_the_time_of_the_last_one_and_the_level_of_all() -> None:
    repeats = Repeats()
    for at in range(3):
        list(repeats.feed(record(at, level="warning")))
    (told,) = repeats.flush()
    assert (told.at, told.level, told.worker_id) == (2, "warning", "01W")
    assert list(repeats.flush()) == []


def test_only_the_same_source_and_level_repeats() -> None:
    different = [
        record(0),
        record(0, level="warning"),
        record(0, worker="01V"),
        record(0)._replace(task_id="01U"),
        record(0)._replace(attempt=2),
        record(0)._replace(stream="stderr"),
    ]
    assert collapsed(*different) == ["x"] * 6


def test_another_source_does_not_interrupt_a_run() -> None:
    records = [record(at, "same", worker) for at in range(3) for worker in ("01V", "01W")]
    assert collapsed(*records) == ["same"] * 2 + ["last message repeated 2 times"] * 2


@pytest.mark.parametrize("message", ["", "x" * 2_000])
def test_empty_and_very_long_lines_are_not_counted(message: str) -> None:
    assert collapsed(*[record(0, message)] * 3) == [message] * 3


def test_parts_of_a_line_are_not_counted() -> None:
    assert collapsed(*[record(0)._replace(more=True)] * 3) == ["x"] * 3


def test_a_run_without_end_is_told_of_again_and_again() -> None:
    shown = collapsed(*(record(at * 1_000, "same") for at in range(26)))
    every = TELL_AGAIN_MS // 1_000
    assert shown == [
        "same",
        f"last message repeated {every} times",
        f"last message repeated {every} times",
        "last message repeated 5 times",
    ]


WANTED = [
    (Wanted(), "012345"),
    (Wanted(since=3), "345"),
    (Wanted(level="info"), "1235"),
    (Wanted(level="warning"), "25"),
    (Wanted(level="error"), "5"),
    (Wanted(worker_id="01A"), "012"),
    (Wanted(task_id="01T"), "1245"),
    (Wanted(task_id="01T", attempt=2), "25"),
    (Wanted(since=1, level="info", worker_id="01A", task_id="01T"), "12"),
]


@pytest.mark.parametrize(("wanted", "found"), WANTED)
def test_records_are_filtered(wanted: Wanted, found: str) -> None:
    records = [
        Record(0, "01A", None, 0, "system", "debug", b"0"),
        Record(1, "01A", "01T", 1, "stdout", "info", b"1"),
        Record(2, "01A", "01T", 2, "stderr", "warning", b"2"),
        Record(3, "01B", "01U", 1, "stdout", "info", b"3"),
        Record(4, "01B", "01T", 3, "system", "debug", b"4"),
        Record(5, "01B", "01T", 2, "system", "error", b"5"),
    ]
    assert "".join(texts(list(filter(wanted.fits, records)))) == found


class Pool:
    """Workers that write logs when told."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.logs: dict[str, LogFile] = {}

    def say(self, worker: str, text: str, at: int) -> None:
        path = f"{self.directory}/{worker}.log"
        log = self.logs.setdefault(worker, LogFile(path, Context(worker), max_bytes=500))
        log.write("O", text.encode(), at)

    def find(self) -> list[Source]:
        return [Source(str(path)) for path in sorted(self.directory.glob("*.log"))]

    def close(self) -> None:
        for log in self.logs.values():
            log.close()


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    pool = Pool(tmp_path)
    yield pool
    pool.close()


def test_the_logs_of_all_workers_are_one_stream(pool: Pool) -> None:
    for number in range(50):
        pool.say(f"w{number % 3}", f"{number}\n", NOW + number)
    assert texts(Multiplexer(pool.find, Wanted()).read()) == [str(number) for number in range(50)]
    wanted = Wanted(worker_id="w1", since=NOW + 40)
    assert texts(Multiplexer(pool.find, wanted).read()) == ["40", "43", "46", "49"]


class Done(Exception):
    """The play is over."""


def follow(pool: Pool, *acts: Callable[[ManualClock], object]) -> list[str]:
    """What is seen while things happen, each a second after the other."""
    clock, left = ManualClock(NOW), list(acts)
    seen: list[str] = []
    mux = Multiplexer(pool.find, Wanted())

    def rest(_seconds: float) -> None:
        if not left:
            raise Done
        clock.advance(1_000)
        left.pop(0)(clock)

    with suppress(Done), closing(mux):
        seen.extend(each.text for each in mux.follow(clock, rest))
    return seen


def test_following_shows_history_then_what_comes_and_who_comes(pool: Pool) -> None:
    pool.say("w1", "old 1\n", NOW - 10)
    pool.say("w0", "old 0\n", NOW - 20)
    seen = follow(
        pool,
        lambda clock: pool.say("w1", "new 1\n", clock.now()),
        lambda clock: pool.say("w2", "newcomer\n", clock.now()),
        lambda clock: pool.say("w0", "later\n", clock.now()),
        lambda _clock: None,
    )
    assert seen == ["old 0", "old 1", "new 1", "newcomer", "later"]


def test_following_orders_what_comes_together(pool: Pool) -> None:
    def speak(clock: ManualClock) -> None:
        for number in range(30):
            pool.say(f"w{2 - number % 3}", f"{number}\n", clock.now() + number)

    seen = follow(pool, speak, lambda _clock: None, lambda _clock: None)
    assert seen == [str(number) for number in range(30)]


def test_following_survives_rotation_of_all(pool: Pool) -> None:
    def speak(start: int) -> Callable[[ManualClock], None]:
        def act(clock: ManualClock) -> None:
            for number in range(start, start + 60):
                pool.say(f"w{number % 3}", f"{number}\n", clock.now() + number)

        return act

    seen = follow(pool, *(speak(start) for start in range(0, 600, 60)), lambda _clock: None)
    assert seen == [str(number) for number in range(600)]
    assert list(pool.directory.glob("*.log.1"))


def test_following_tells_how_often_after_a_silence(pool: Pool) -> None:
    def speak(clock: ManualClock) -> None:
        pool.say("w0", "same\n" * 5, clock.now())

    quiet = [lambda _clock: None] * 3
    assert follow(pool, speak, *quiet) == ["same", "last message repeated 4 times"]
