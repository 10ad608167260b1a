from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import pytest

from acode.model.state import FINISHED, MOVES, WORKER_MOVES, Status, WorkerStatus

Moves = Mapping[Any, frozenset[Any]]


def reachable(table: Moves, *starts: StrEnum) -> set[StrEnum]:
    found, left = set(starts), list(starts)
    while left:
        new = table[left.pop()] - found
        found |= new
        left += new
    return found


@pytest.mark.parametrize(
    ("table", "states"), [(MOVES, Status), (WORKER_MOVES, WorkerStatus)], ids=["task", "worker"]
)
def test_the_table_of_moves_is_closed(table: Moves, states: type[StrEnum]) -> None:
    assert set(table) == set(states)
    assert {became for after in table.values() for became in after} <= set(states)


@pytest.mark.parametrize("table", [MOVES, WORKER_MOVES], ids=["task", "worker"])
def test_no_state_moves_to_itself(table: Moves) -> None:
    assert not [state for state, after in table.items() if state in after]


def test_every_state_of_a_task_can_be_reached_from_the_queue() -> None:
    assert reachable(MOVES, Status.PENDING, Status.BLOCKED) == set(Status)


def test_every_state_of_a_worker_can_be_reached_from_its_start() -> None:
    assert reachable(WORKER_MOVES, WorkerStatus.STARTING) == set(WorkerStatus)


def test_every_task_can_still_be_finished() -> None:
    for status in Status:
        assert reachable(MOVES, status) & FINISHED


def test_every_worker_can_still_end() -> None:
    for status in WorkerStatus:
        assert reachable(WORKER_MOVES, status) & {WorkerStatus.STOPPED, WorkerStatus.FAILED}


def test_nothing_but_a_user_wakes_a_finished_task() -> None:
    assert {status: MOVES[status] for status in FINISHED} == {
        Status.COMPLETED: frozenset(),
        Status.FAILED: {Status.PENDING, Status.CANCELLED},
        Status.CANCELLED: {Status.PENDING},
    }


def test_only_a_running_task_can_complete_or_fail() -> None:
    for target in (Status.COMPLETED, Status.FAILED):
        assert [status for status, after in MOVES.items() if target in after] == [Status.RUNNING]


def test_only_a_pending_task_can_start() -> None:
    assert [status for status, after in MOVES.items() if Status.RUNNING in after] == [
        Status.PENDING
    ]


@pytest.mark.req("forge-01")
def test_workers_move_as_in_the_diagram_of_forge() -> None:
    idle, busy, error = WorkerStatus.IDLE, WorkerStatus.BUSY, WorkerStatus.ERROR
    crashed, starting, failed = WorkerStatus.CRASHED, WorkerStatus.STARTING, WorkerStatus.FAILED
    diagram = {
        idle: {busy},  # assign
        busy: {idle, error, crashed},  # complete, error or timeout, death
        error: {idle, crashed},  # recover, or not
        crashed: {starting, failed},  # restart, too many restarts
        starting: {idle},
    }
    for was, became in diagram.items():
        assert became <= WORKER_MOVES[was]
    assert busy not in WORKER_MOVES[error]
    assert busy not in WORKER_MOVES[crashed]
    assert idle not in WORKER_MOVES[crashed]
