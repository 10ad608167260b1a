"""The slot for an ending that nobody has acknowledged."""

import os
from pathlib import Path

import pytest

from acode.model.ending import Exited
from acode.worker import spool
from acode.worker.messages import Ended
from acode.worker.wire import encode


def ended(token: str, artifacts: int = 0) -> Ended:
    names = tuple(f"file-{number}" for number in range(artifacts))
    return Ended(
        task_id="task", token=token, number=1, ending=Exited(0), ended_at=5, artifacts=names
    )


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "slot")


def test_what_was_kept_last_is_read(path: str) -> None:
    slot = spool.Spool(path)
    for each in (ended("a", 5000), ended("b")):
        slot.keep(encode(each))
        assert spool.read(path) == each
    slot.close()
    assert spool.read(path) == ended("b")


def test_a_slot_that_was_never_used_is_empty(path: str) -> None:
    assert spool.read(path) is None
    spool.Spool(path).close()
    assert spool.read(path) is None


@pytest.mark.parametrize("size", [0, 4, 12, 40])
def test_a_torn_ending_is_none(path: str, size: int) -> None:
    slot = spool.Spool(path)
    slot.keep(encode(ended("a")))
    slot.close()
    os.truncate(path, size)
    assert spool.read(path) is None


def test_an_ending_with_a_wrong_byte_is_none(path: str) -> None:
    slot = spool.Spool(path)
    slot.keep(encode(ended("a")))
    slot.close()
    with open(path, "r+b") as file:
        file.seek(20)
        file.write(b"\xff")
    assert spool.read(path) is None


def test_room_for_an_ending_is_taken_in_advance(path: str) -> None:
    spool.Spool(path).close()
    assert os.stat(path).st_blocks * 512 >= spool.ROOM_BYTES
