"""Ringing the bell of a pool that comes and goes."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from acode.sockets import Rope, short_path


@contextmanager
def bell(path: Path) -> Iterator[socket.socket]:
    """A socket that a pool would hear."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as wire:
        wire.setblocking(False)
        with short_path(str(path)) as short:
            wire.bind(short)
        try:
            yield wire
        finally:
            os.unlink(path)


@contextmanager
def rope_to(path: Path) -> Iterator[Rope]:
    rope = Rope(str(path))
    yield rope
    rope.close()


def test_every_pull_rings(tmp_path: Path) -> None:
    with bell(tmp_path / "bell") as heard, rope_to(tmp_path / "bell") as rope:
        assert rope.pull()
        assert rope.pull()
        assert heard.recv(16) == heard.recv(16) == b"!"
        with pytest.raises(BlockingIOError):
            heard.recv(16)


def test_nobody_hears_where_there_is_no_bell(tmp_path: Path) -> None:
    with rope_to(tmp_path / "bell") as rope:
        assert not rope.pull()


def test_a_bell_that_is_hung_up_later_is_rung(tmp_path: Path) -> None:
    with rope_to(tmp_path / "bell") as rope, bell(tmp_path / "bell") as heard:
        assert rope.pull()
        assert heard.recv(16) == b"!"


def test_the_bell_of_the_next_pool_is_found(tmp_path: Path) -> None:
    with bell(tmp_path / "bell"):
        rope = Rope(str(tmp_path / "bell"))
        assert rope.pull()
    assert not rope.pull()
    with bell(tmp_path / "bell") as heard:
        assert rope.pull()
        assert heard.recv(16) == b"!"
    rope.close()


def test_a_bell_that_is_full_rings_already(tmp_path: Path) -> None:
    with bell(tmp_path / "bell"), rope_to(tmp_path / "bell") as rope:
        for _ in range(10_000):  # far more than any system keeps for somebody who does not listen
            assert rope.pull()


def test_the_path_may_be_long(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 200)
    deep.mkdir()
    with bell(deep / "bell") as heard, rope_to(deep / "bell") as rope:
        assert rope.pull()
        assert heard.recv(16) == b"!"


def test_letting_go_twice_is_fine(tmp_path: Path) -> None:
    with bell(tmp_path / "bell"):
        rope = Rope(str(tmp_path / "bell"))
        rope.close()
        rope.close()
