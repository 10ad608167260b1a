"""The stream of an agent: recorded from the real program, and broken in every way."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acode.model.agent import AgentFormat, AgentRun, UsageLimit
from acode.runner.agent.lines import LineReader
from acode.runner.agent.stream import AgentStream

NOW = 1_800_000_000_000
RECORDED = Path(__file__).parent / "recorded"
"""What Claude Code 2.1.197 printed; its service was played by a server on this machine."""


def recorded(name: str) -> bytes:
    return (RECORDED / f"{name}.jsonl").read_bytes()


def read(
    data: bytes, format_: AgentFormat = AgentFormat.AUTO, *, step: int = 1 << 20
) -> tuple[AgentStream, str]:
    """A stream that has read everything, in pieces of a size, and what it told."""
    stream = AgentStream(format_)
    pieces = [data[at : at + step] for at in range(0, len(data), step)]
    told = b"".join(stream.feed(piece, NOW) for piece in pieces)
    return stream, (told + stream.close(NOW)).decode("utf-8", "backslashreplace")


def event(type_: str, **fields: Any) -> bytes:
    return json.dumps({"type": type_, **fields}).encode() + b"\n"


def result(**fields: Any) -> bytes:
    return event("result", **{"subtype": "success", "is_error": False, "result": "ok", **fields})


def test_a_recorded_run_becomes_lines_that_people_read() -> None:
    stream, told = read(recorded("tool"))
    assert told.splitlines() == [
        "session 17b281a1-0354-4f88-a1b6-debd21e745ea, model claude-opus-4-8[1m]",
        "I look around.",
        "→ Bash: ls -la; echo done",
        "← total 8 (+3 lines)",
        "All done: hello from the stand-in.",
        "✓ done: 2 turns, $0.0011, 0.1 s",
    ]
    assert stream.run == AgentRun(
        session_id="17b281a1-0354-4f88-a1b6-debd21e745ea",
        model="claude-opus-4-8[1m]",
        turns=2,
        cost_usd=0.0011,
        duration_ms=131,
        result="All done: hello from the stand-in.",
    )
    assert stream.has_result


def test_a_recorded_limit_is_known_although_its_subtype_is_success() -> None:
    stream, told = read(recorded("limit"))
    assert stream.run.is_error
    assert stream.run.limit is not None
    assert stream.run.limit.resets_at is None
    assert "✗ failed: API Error: Request rejected (429)" in told


def test_a_recorded_failure_is_no_limit() -> None:
    stream, _ = read(recorded("credit"))
    assert stream.run.is_error
    assert stream.run.limit is None
    assert stream.run.result == "Credit balance is too low"
    assert stream.trouble == "billing_error"


def test_a_recorded_run_that_was_cut_has_no_result() -> None:
    stream, told = read(recorded("cut"))
    assert stream.speaks_events
    assert not stream.has_result
    assert "authentication_failed (401): retry 1 of 10 in 0.6 s" in told


@pytest.mark.parametrize("name", ["plain", "tool", "limit", "credit", "cut"])
@given(cuts=st.lists(st.integers(0, 5000), max_size=30))
def test_where_a_stream_is_cut_does_not_matter(name: str, cuts: list[int]) -> None:
    data = recorded(name)
    stream, places = AgentStream(), [0, *sorted(cuts), len(data)]
    told = b"".join(
        stream.feed(data[here:there], NOW) for here, there in itertools.pairwise(places)
    )
    whole, words = read(data)
    assert (told + stream.close(NOW)).decode() == words
    assert stream.run == whole.run


@given(st.lists(st.binary(max_size=200)))
def test_any_bytes_are_read_and_no_line_that_is_no_event_is_changed(pieces: list[bytes]) -> None:
    stream = AgentStream()
    told = b"".join(stream.feed(piece, NOW) for piece in pieces) + stream.close(NOW)
    given_ = b"".join(pieces)
    assert told == given_ + (b"" if not given_ or given_.endswith(b"\n") else b"\n")
    assert stream.run == AgentRun()


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
FIELDS = st.sampled_from(
    [
        "message",
        "content",
        "text",
        "type",
        "name",
        "input",
        "session_id",
        "model",
        "subtype",
        "result",
        "errors",
        "is_error",
        "num_turns",
        "total_cost_usd",
        "duration_ms",
        "rate_limit_info",
        "status",
        "resetsAt",
        "error",
        "parent_tool_use_id",
        "attempt",
        "max_retries",
        "retry_delay_ms",
        "error_status",
    ]
)
TYPES = st.sampled_from(
    ["system", "assistant", "user", "result", "rate_limit_event", "stream_event", "novelty"]
)


@given(
    st.lists(
        st.builds(
            lambda type_, fields: {**fields, "type": type_},
            TYPES,
            st.dictionaries(
                FIELDS, ANY_JSON | st.dictionaries(FIELDS, ANY_JSON) | st.lists(ANY_JSON)
            ),
        )
    ),
    st.integers(1, 50),
)
def test_events_of_any_shape_are_read(events: list[dict[str, Any]], step: int) -> None:
    data = b"".join(json.dumps(each).encode() + b"\n" for each in events)
    stream, told = read(data, step=step)
    told.encode()
    assert stream.has_result <= any(each["type"] == "result" for each in events)


def test_what_stands_between_events_is_text() -> None:
    data = b"starting\n" + result() + b"\xff\xfe \x00\n" + b'{"broken": \n' + b"[1, 2]\n"
    _, told = read(data)
    assert told.splitlines() == [
        "starting",
        "✓ done",
        "\\xff\\xfe \x00",
        '{"broken": ',
        "[1, 2]",
    ]


def test_an_event_from_the_future_is_shown_as_it_is() -> None:
    line = event("novelty", words="hello")
    stream, told = read(line)
    assert told == line.decode()
    assert not stream.speaks_events


def test_an_event_with_broken_characters_is_an_event() -> None:
    data = result(result="RESULT").replace(b"RESULT", b"caf\xe9")
    stream, _ = read(data)
    assert stream.run.result == "caf\N{REPLACEMENT CHARACTER}"


def test_half_characters_and_ends_of_lines_do_not_leave_their_line() -> None:
    blocks = [{"type": "tool_use", "name": "Bash", "input": {"command": "a\rb\x1b[2J\ud800"}}]
    _, told = read(event("assistant", message={"content": blocks}))
    assert len(told.splitlines()) <= 2
    assert told.endswith("\n")


def test_an_event_that_is_nested_without_end_is_text() -> None:
    deep = b'{"type":"result","x":' + b"[" * 100_000 + b"\n"
    stream, told = read(deep)
    assert not stream.has_result
    assert told.encode() == deep


def test_an_event_of_many_megabytes_is_read_and_shortened() -> None:
    content = [{"type": "tool_result", "content": [{"type": "text", "text": "y" * 8_000_000}]}]
    data = event("user", message={"content": content}) + result()
    stream, told = read(data, step=65_536)
    assert told.splitlines() == [f"← {'y' * 200}…", "✓ done"]
    assert stream.has_result


def test_a_line_that_is_too_long_is_left_out_and_what_follows_is_read() -> None:
    reader = LineReader(max_bytes=10)
    lines = [line for piece in (b"1234", b"5678901", b"x\nshort\n") for line in reader.feed(piece)]
    assert lines == [b"(a line of 12 bytes is left out)", b"short"]


@given(st.lists(st.binary(max_size=30)), st.integers(1, 40))
def test_lines_are_those_of_the_whole(pieces: list[bytes], most: int) -> None:
    reader = LineReader(most)
    lines = [line for piece in pieces for line in reader.feed(piece)] + [reader.rest()]
    whole = b"".join(pieces).split(b"\n")
    assert [line for line in lines if len(line) <= most and b"left out" not in line] == [
        line for line in whole if len(line) <= most
    ]
    assert len(lines) == len(whole)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"is_error": True, "result": "no"}, "no"),
        ({"subtype": "error_max_turns", "result": None}, "error_max_turns"),
        ({"subtype": "error_during_execution", "result": None, "errors": ["a", "b"]}, "a; b"),
    ],
)
def test_a_failed_result_says_why(fields: dict[str, Any], words: str) -> None:
    stream, told = read(result(**fields))
    assert stream.run.is_error
    assert stream.run.result == words
    assert f"✗ failed: {words}" in told


def test_the_last_result_counts_and_another_turn_takes_it_back() -> None:
    more = event("assistant", message={"content": "wait"})
    stream, _ = read(result(num_turns=1) + more)
    assert not stream.has_result
    stream, _ = read(result(num_turns=1) + more + result(num_turns=3))
    assert stream.has_result
    assert stream.run.turns == 3


@pytest.mark.parametrize(
    ("message", "resets_at"),
    [
        ("Claude AI usage limit reached|1800003600", 1_800_003_600_000),
        ("You've hit your session limit · resets 9:30am (UTC)", 1_800_005_400_000),
        ("You've hit your weekly limit · resets Jan 16, 8am (UTC)", 1_800_086_400_000),
        ("You've hit your weekly limit · resets Jan 16, 2027, 8am (UTC)", 1_800_086_400_000),
        ("You've hit your Opus limit · resets 9am (Asia/Kolkata)", 1_800_070_200_000),
        ("You've hit your session limit · resets 9am (Moon/Sea)", None),
        ("You've hit your monthly spend limit.", None),
    ],
)
def test_a_limit_names_its_end_in_words(message: str, resets_at: int | None) -> None:
    stream, _ = read(result(is_error=True, result=message))
    assert stream.run.limit == UsageLimit(message.partition("|")[0], resets_at)


def limited(**info: Any) -> bytes:
    return event("rate_limit_event", rate_limit_info={"status": "rejected", **info})


def test_a_limit_event_names_its_end() -> None:
    data = limited(resetsAt=1_800_003_600, rateLimitType="five_hour")
    stream, told = read(data + result(is_error=True, result="stopped"))
    assert stream.run.limit == UsageLimit("the five hour limit is reached", 1_800_003_600_000)
    assert "✗ the five hour limit is reached until 2027-01-15T09:00:00.000Z" in told


@pytest.mark.parametrize(
    "data",
    [
        limited(resetsAt=1) + result(),
        limited(isUsingOverage=True) + result(is_error=True, result="tests fail"),
        limited()
        + event("rate_limit_event", rate_limit_info={"status": "allowed"})
        + result(is_error=True, result="tests fail"),
        event("assistant", message={"content": "You've hit your session limit"}) + result(),
    ],
    ids=["it went on and succeeded", "extra usage", "allowed again", "only talk of it"],
)
def test_a_limit_that_did_not_end_the_run_is_none(data: bytes) -> None:
    assert read(data)[0].run.limit is None


def test_text_is_not_read() -> None:
    data = result()
    stream, told = read(data, AgentFormat.TEXT)
    assert told == data.decode()
    assert not stream.speaks_events
    assert not stream.has_result


def test_what_an_agents_agent_does_stands_aside() -> None:
    blocks = [{"type": "text", "text": "I help.\nA little."}]
    _, told = read(event("assistant", message={"content": blocks}, parent_tool_use_id="toolu_1"))
    assert told == "  I help.\n  A little.\n"
