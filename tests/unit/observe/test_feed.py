"""The feed: numbers that only grow, lines that survive a cut, readers that miss nothing."""

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from acode.model.event import PoolNote, PoolScaled, TaskRefused, WorkerStatusChanged, told
from acode.model.state import WorkerStatus
from acode.observe.feed import SPAN, FeedReader, FeedWriter, Told, entries


def note(text: str = "hello") -> Told:
    return Told("pool.note", {"level": "info", "message": text}, 1_700_000_000_000)


def numbers(path: str) -> list[int]:
    return [entry.seq for entry, _ in entries(path)]


def test_events_lie_between_the_moves_around_them(tmp_path: Path) -> None:
    path = str(tmp_path / "feed" / "events.jsonl")
    writer = FeedWriter(path)
    writer.write([note(), note()], newest_move=3)
    writer.write([note()], newest_move=3)
    writer.write([note()], newest_move=9)
    writer.close()
    assert numbers(path) == [3 * SPAN + 1, 3 * SPAN + 2, 3 * SPAN + 3, 9 * SPAN + 1]


def test_another_daemon_goes_on_where_the_last_one_stopped(tmp_path: Path) -> None:
    path = str(tmp_path / "events.jsonl")
    for _ in range(2):
        writer = FeedWriter(path)
        writer.write([note(), note()], newest_move=5)
        writer.close()
    assert numbers(path) == [5 * SPAN + n for n in (1, 2, 3, 4)]


def test_a_line_that_was_cut_off_costs_only_itself(tmp_path: Path) -> None:
    path = str(tmp_path / "events.jsonl")
    writer = FeedWriter(path)
    writer.write([note("one"), note("two")], 1)
    writer.close()
    os.truncate(path, os.path.getsize(path) - 5)
    writer = FeedWriter(path)
    writer.write([note("three")], 1)
    writer.close()
    assert [entry.payload["message"] for entry, _ in entries(path)] == ["one", "three"]


@given(batches=st.lists(st.integers(0, 5), max_size=20), max_bytes=st.integers(300, 2000))
def test_a_reader_gets_everything_once_through_every_rotation(
    batches: list[int], max_bytes: int
) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = os.path.join(folder, "events.jsonl")
        writer = FeedWriter(path, max_bytes)
        reader = FeedReader(path)
        read: list[int] = []
        written = 0
        for size in batches:
            writer.write([note() for _ in range(size)], newest_move=2)
            written += size
            read += [entry.seq for entry, _ in reader.read()]
        writer.close()
        reader.close()
        assert read == [2 * SPAN + n + 1 for n in range(written)]


def test_a_reader_waits_for_a_file_that_is_not_there_yet(tmp_path: Path) -> None:
    path = str(tmp_path / "events.jsonl")
    reader = FeedReader(path)
    assert reader.read() == []
    writer = FeedWriter(path)
    writer.write([note()], 1)
    assert len(reader.read()) == 1
    writer.close()
    reader.close()


def test_payloads_are_those_of_the_seed() -> None:
    assert told(PoolScaled(2, 5, "asked for")) == (
        "pool.scaled",
        {"direction": "up", "count": 3, "was": 2, "now": 5, "reason": "asked for"},
    )
    busy = WorkerStatusChanged("W", WorkerStatus.BUSY, "T")
    assert told(busy) == ("worker.status", {"workerId": "W", "status": "busy", "task": "T"})
    idle = WorkerStatusChanged("W", WorkerStatus.IDLE)
    assert told(idle) == ("worker.status", {"workerId": "W", "status": "idle"})
    assert told(PoolNote("info", "x")) == ("pool.note", {"level": "info", "message": "x"})
    assert told(TaskRefused("T", "W")) is None
