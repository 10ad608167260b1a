"""Samples of the time before the daemon, made of moves."""

from acode.model.state import Status
from acode.model.task import Move
from acode.observe.figures import SAMPLES, Figures
from acode.observe.past import Past

NOW = 1_700_000_000_000


def move(seconds_ago: float, was: Status | None, became: Status) -> Move:
    at = NOW - round(seconds_ago * 1000)
    return Move(seq=1, task_id="x", was=was, became=became, at=at, actor="a", reason="r")


def told(*moves: Move, pending: int = 0, running: int = 0) -> list[tuple[int, int, int]]:
    past = Past(NOW, 5_000, 10)
    for each in moves:
        past.hear(each)
    samples = past.samples(pending, running)
    return [(each["pending"], each["running"], each["completed"]) for each in samples]


def test_without_moves_there_is_nothing_to_tell() -> None:
    assert told() == []


def test_levels_are_worked_out_from_the_end_back() -> None:
    moves = (
        move(22, None, Status.PENDING),
        move(22, None, Status.PENDING),
        move(12, Status.PENDING, Status.RUNNING),
        move(2, Status.RUNNING, Status.COMPLETED),
    )
    assert told(*moves, pending=1) == [
        (0, 0, -1),
        (2, 0, -1),
        (2, 0, -1),
        (1, 1, -1),
        (1, 1, -1),
        (1, 0, 0),
    ]


def test_what_is_too_old_is_left_out() -> None:
    assert told(move(50, None, Status.PENDING), pending=1) == []


def test_older_samples_never_push_newer_ones_out() -> None:
    figures = Figures()
    figures.samples.extend({"at": n} for n in range(SAMPLES - 2))
    figures.remember([{"at": "too old"}, {"at": "one"}, {"at": "two"}])
    assert [each["at"] for each in figures.samples][:3] == ["one", "two", 0]
    assert figures.samples[-1] == {"at": SAMPLES - 3}
