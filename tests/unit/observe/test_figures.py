"""Counters, durations, the last day, and the governance file."""

import json
from pathlib import Path

from acode.model.event import PoolNote, TaskEnded, WorkerCrashed, WorkerFailed, WorkerStarted
from acode.model.state import Status
from acode.observe.figures import Figures, Histogram
from acode.observe.governance import publish, read
from acode.observe.lately import DAY_MINUTES, MINUTE_MS, Lately


def ended(status: Status, *, took: int = 10, counts: bool = True) -> TaskEnded:
    return TaskEnded("T", "W", 1, status, "because", "shell", took, counts)


def test_attempts_are_counted_by_kind_and_fate() -> None:
    figures = Figures()
    for status in (Status.COMPLETED, Status.COMPLETED, Status.FAILED, Status.PENDING):
        figures.hear(ended(status))
    figures.hear(ended(Status.PENDING, counts=False))
    figures.hear(PoolNote("info", "nothing to count"))
    assert figures.total(Status.COMPLETED) == 2
    assert figures.total(Status.FAILED) == 1
    assert figures.total(Status.PENDING) == 1, "a retry"
    assert figures.counters["released"] == 1


def test_a_duration_at_a_bound_is_below_it() -> None:
    figures = Figures()
    for took in (0, 5, 6, 4_000_000):
        figures.hear(ended(Status.COMPLETED, took=took))
    view = figures.view()["durations"]["shell"]
    assert view["buckets"][:2] == [2, 1]
    assert view["buckets"][-1] == 1
    assert sum(view["buckets"]) == 4
    assert view["totalMs"] == 4_000_011
    assert len(view["buckets"]) == len(Histogram.BOUNDS) + 1


def test_workers_are_counted() -> None:
    figures = Figures()
    figures.hear(WorkerStarted("W", 1))
    figures.hear(WorkerStarted("W", 1, adopted=True))
    figures.hear(WorkerCrashed("W", "why", 1000))
    figures.hear(WorkerCrashed("W", "why", None))
    figures.hear(WorkerFailed("W", "why"))
    assert figures.counters == {
        "started": 1, "adopted": 1, "crashed": 2, "restarted": 1, "given_up": 1,
    }  # fmt: skip


def test_the_high_water_mark_stays() -> None:
    figures = Figures()
    for waiting in (3, 9, 1):
        figures.saw_waiting(waiting)
    assert figures.high_water == 9


def test_a_day_slides() -> None:
    lately, now = Lately(), 1_700_000_000_000
    lately.add(now - DAY_MINUTES * MINUTE_MS - MINUTE_MS, 1_000_000)
    lately.add(now - MINUTE_MS, 100)
    lately.add(now, 200)
    assert lately.summary(now) == (2, 150)
    assert lately.summary(now + 2 * DAY_MINUTES * MINUTE_MS) == (0, 0)


def test_only_our_part_of_the_governance_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "governance.json"
    assert publish(str(path), {"status": "running"})
    document = json.loads(path.read_text())
    path.write_text(json.dumps({"theirs": [1, {"a": None}], **document}))
    assert publish(str(path), {"status": "stopped"})
    assert read(str(path)) == {"theirs": [1, {"a": None}], "workerPool": {"status": "stopped"}}
    assert [each.name for each in path.parent.iterdir()] == ["governance.json"]


def test_a_file_that_is_no_object_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "governance.json"
    for text in ("[1, 2]", "{ half", '"words"'):
        path.write_text(text)
        assert not publish(str(path), {"status": "running"})
        assert path.read_text() == text
