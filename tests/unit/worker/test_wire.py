"""Frames: however the stream is cut, they come out whole and in order."""

import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acode.worker.messages import Action, Control, Note, Why
from acode.worker.wire import (
    MAX_FRAME_BYTES,
    BrokenFrame,
    FrameReader,
    FrameType,
    pack,
    unpack,
)

NOTES = st.builds(Note, st.text(max_size=20), st.text(max_size=200))


@pytest.mark.req("forge-16")
@given(st.lists(NOTES, max_size=8), st.integers(1, 50))
def test_frames_survive_any_cut(notes: list[Note], size: int) -> None:
    stream = b"".join(
        pack(FrameType.LOG, f"id-{number}", number, note) for number, note in enumerate(notes)
    )
    reader, frames = FrameReader(), []
    for start in range(0, len(stream), size):
        frames += reader.feed(stream[start : start + size])
    assert [unpack(frame, Note) for frame in frames] == notes
    assert [(frame.type, frame.id, frame.timestamp) for frame in frames] == [
        (FrameType.LOG, f"id-{number}", number) for number in range(len(notes))
    ]


@pytest.mark.req("forge-17")
def test_there_is_a_frame_for_everything() -> None:
    assert set(FrameType) == {"task", "result", "heartbeat", "log", "error", "control", "limit"}
    assert {Action.ABORT, Action.SHUTDOWN} <= set(Action)
    order = Control(action=Action.ABORT, token="t", why=Why.CANCEL, force=True)
    (frame,) = FrameReader().feed(pack(FrameType.CONTROL, "t", 7, order))
    assert unpack(frame, Control) == order


def test_a_frame_that_is_too_large_is_refused() -> None:
    with pytest.raises(BrokenFrame, match="too large"):
        list(FrameReader().feed(struct.pack(">I", MAX_FRAME_BYTES + 1)))


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(BrokenFrame, match="cannot be read"):
        list(FrameReader().feed(struct.pack(">I", 3) + b"abc"))


def test_a_payload_of_another_shape_is_refused() -> None:
    (frame,) = FrameReader().feed(pack(FrameType.CONTROL, "x", 1, msgspec.Raw(b"\x01")))
    with pytest.raises(BrokenFrame, match="a control frame cannot be read"):
        unpack(frame, Control)
