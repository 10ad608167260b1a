from itertools import product

import pytest

from acode.model.event import event_of
from acode.model.state import MOVES, Status
from acode.model.task import Move

BIRTHS = {(None, Status.PENDING), (None, Status.BLOCKED)}
LEGAL = BIRTHS | {(was, became) for was, after in MOVES.items() for became in after}
ILLEGAL = set(product([None, *Status], Status)) - LEGAL


def move(was: Status | None, became: Status) -> Move:
    return Move(
        seq=7, task_id="01A", was=was, became=became, at=1000, actor="cli", reason="because"
    )


@pytest.mark.parametrize(("was", "became"), sorted(LEGAL, key=str))
def test_every_legal_move_is_an_event(was: Status | None, became: Status) -> None:
    event = event_of(move(was, became))
    assert event.type.startswith("task.")
    assert (event.seq, event.timestamp) == (7, 1000)
    assert event.payload == {
        "taskId": "01A",
        "status": became.value,
        "actor": "cli",
        "reason": "because",
    }


@pytest.mark.parametrize(("was", "became"), sorted(ILLEGAL, key=str))
def test_an_illegal_move_is_none(was: Status | None, became: Status) -> None:
    with pytest.raises(KeyError):
        event_of(move(was, became))


@pytest.mark.parametrize(
    ("was", "became", "name"),
    [
        (Status.PENDING, Status.RUNNING, "task.assigned"),
        (Status.RUNNING, Status.COMPLETED, "task.completed"),
        (Status.RUNNING, Status.FAILED, "task.failed"),
    ],
)
def test_the_events_of_a_run_have_their_promised_names(
    was: Status, became: Status, name: str
) -> None:
    assert event_of(move(was, became)).type == name
