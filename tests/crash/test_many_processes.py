"""Many processes on one file: nobody is refused, nothing is lost, nothing is done twice."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from acode.model.state import Status
from acode.store.base import TaskQuery
from tests.conformance.kit import PLENTY, assert_sound, at_once
from tests.crash.crowd import add_many, cancel_some, open_world, run_many
from tests.crash.processes import CONTEXT, child, ends_of

ADDERS, ADDS = 8, 60


@pytest.fixture
def path(tmp_path: Path) -> Path:
    for name in ("held", "done"):
        (tmp_path / name).mkdir()
    return tmp_path / "queue.db"


def test_eight_processes_add_at_once(path: Path) -> None:
    start = CONTEXT.Barrier(ADDERS)
    ends = ends_of(*[(add_many, (str(path), start, ADDS, 3))] * ADDERS)
    assert ends == [0] * ADDERS
    world = open_world(str(path))
    assert len(at_once(world.store.find(TaskQuery(limit=PLENTY)))) == ADDERS * ADDS * 3
    at_once(assert_sound(world.store))
    at_once(world.store.close())


@pytest.mark.req("027-FR-034", "027-FR-035")
@pytest.mark.parametrize(
    "grouped", [(True,) * 4, (False,) * 4, (True, False, True, False)], ids=str
)
def test_every_task_runs_in_one_process_at_a_time_and_completes_once(
    path: Path, grouped: tuple[bool, ...]
) -> None:
    """Four claim and finish while two add, and another cancels and takes it back."""
    start, over = CONTEXT.Barrier(7), CONTEXT.Event()
    with ExitStack() as crowd:
        others = [
            crowd.enter_context(child(run_many, str(path), start, over, seed, how))
            for seed, how in enumerate(grouped)
        ]
        others.append(crowd.enter_context(child(cancel_some, str(path), start, over, 7)))
        assert ends_of(*[(add_many, (str(path), start, 50, 4))] * 2) == [0, 0]
        over.set()
        for process in others:
            process.join(60)
        assert [process.exitcode for process in others] == [0] * 5
    assert_all_done_once(path)


def assert_all_done_once(path: Path) -> None:
    world = open_world(str(path))
    at_once(assert_sound(world.store))
    records = at_once(world.everything())
    assert len(records) == 400
    assert {record.task.status for record in records} <= {Status.COMPLETED, Status.CANCELLED}
    done = {file.name for file in (path.parent / "done").iterdir()}
    completed = {r.task.id for r in records if r.task.status is Status.COMPLETED}
    assert completed == done
    assert len(completed) > 100
    assert not list((path.parent / "held").iterdir())
    at_once(world.store.close())
