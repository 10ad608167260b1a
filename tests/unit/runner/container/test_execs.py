"""Two streams in one, and what an engine says instead of a command."""

from hypothesis import given
from hypothesis import strategies as st

from acode.runner.container.execs import Frames, State, refusal

PIECES = st.lists(st.tuples(st.booleans(), st.binary(max_size=30)), max_size=8)


def framed(pieces: list[tuple[bool, bytes]]) -> bytes:
    return b"".join(
        bytes([1 + is_error, 0, 0, 0]) + len(piece).to_bytes(4) + piece
        for is_error, piece in pieces
    )


@given(PIECES, st.integers(min_value=1, max_value=40))
def test_streams_are_taken_apart_however_they_come(
    pieces: list[tuple[bool, bytes]], step: int
) -> None:
    stream, frames = framed(pieces), Frames()
    got = {False: b"", True: b""}
    for start in range(0, len(stream), step):
        for is_error, piece in frames.feed(stream[start : start + step]):
            got[is_error] += piece
    for is_error in (False, True):
        assert got[is_error] == b"".join(piece for which, piece in pieces if which is is_error)


def test_an_engine_that_could_not_start_a_command_says_so_in_its_output() -> None:
    docker = b'OCI runtime exec failed: exec failed: exec: "x": not found: unknown\r\n'
    assert refusal(State(False, 126), docker) is not None
    podman = b"Error: runc: exec failed: no: OCI runtime attempted to invoke\nError: read\n"
    words = refusal(State(False, 127), podman)
    assert words is not None
    assert "read" not in words


def test_a_command_that_ends_as_if_it_had_not_started_is_taken_at_its_word() -> None:
    assert refusal(State(False, 127), b"sh: x: not found\n") is None
    assert refusal(State(False, 1), b"OCI runtime exec failed") is None
