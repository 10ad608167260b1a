"""Moments, spans, sizes and foreign text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acode.human import ago, clean, number, size, span

NOW = 1_700_000_000_000
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (3_240, "3.2 s"),
        (59_999, "59 s"),
        (192_000, "3 m 12 s"),
        (HOUR, "1 h"),
        (HOUR + 30 * SECOND, "1 h"),
        (2 * HOUR + 5 * MINUTE, "2 h 5 m"),
        (3 * DAY + 4 * HOUR + MINUTE, "3 d 4 h"),
    ],
)
def test_a_span_is_said_in_its_two_largest_units(ms: int, said: str) -> None:
    assert span(ms) == said


@pytest.mark.parametrize(
    ("moment", "said"),
    [
        (None, "-"),
        (NOW, "now"),
        (NOW - 999, "now"),
        (NOW + 999, "now"),
        (NOW - 3 * MINUTE - 59 * SECOND, "3 m ago"),
        (NOW + 5 * MINUTE, "in 5 m"),
        (NOW - 2 * DAY, "2 d ago"),
    ],
)
def test_a_moment_is_said_by_its_distance(moment: int | None, said: str) -> None:
    assert ago(moment, NOW) == said


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KB"), (5 << 30, "5.0 GB"), (3 << 50, "3072.0 TB")],
)
def test_bytes_are_said_in_the_unit_that_fits(count: int, said: str) -> None:
    assert size(count) == said


def test_a_count_agrees_with_its_noun() -> None:
    assert [number(n, "task") for n in (0, 1, 2000)] == ["0 tasks", "1 task", "2,000 tasks"]


def test_text_cannot_move_the_cursor_or_break_the_line() -> None:
    assert clean("a\x1b[31mb\nc\u202ed\ud800") == "a\ufffd[31mb c\ufffdd\ufffd"


def test_letters_of_every_script_stay_as_they_are() -> None:
    assert clean("größer 日本語 👩\u200d💻") == "größer 日本語 👩\u200d💻"


@given(st.text())
def test_clean_text_is_one_printable_line(text: str) -> None:
    assert clean(text).replace("\u200d", "").isprintable()
    assert len(clean(text)) == len(text)
