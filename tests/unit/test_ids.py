import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acode.ids import LENGTH, IdSource, encode, is_prefix, new_id, normalise

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
NOW = 1_700_000_000_000
MOMENTS = st.integers(0, 2**48 - 1)


def decode(text: str) -> int:
    number = 0
    for letter in text:
        number = number * 32 + ALPHABET.index(letter)
    return number


@given(st.integers(0, 2**128 - 1))
def test_an_id_is_a_number_in_crockfords_alphabet(number: int) -> None:
    text = encode(number)
    assert len(text) == LENGTH
    assert decode(text) == number


@given(st.integers(0, 2**128 - 1), st.integers(0, 2**128 - 1))
def test_ids_sort_like_their_numbers(one: int, other: int) -> None:
    assert (encode(one) < encode(other)) == (one < other)


@given(MOMENTS)
def test_an_id_tells_when_it_was_made(moment: int) -> None:
    assert decode(IdSource().new(moment)) >> 80 == moment


@given(st.lists(MOMENTS, min_size=2, max_size=50))
def test_ids_rise_whatever_the_clock_does(moments: list[int]) -> None:
    source = IdSource()
    ids = [source.new(moment) for moment in moments]
    assert all(one < other for one, other in pairwise(ids))


def test_ids_rise_within_a_millisecond() -> None:
    ids = [new_id(NOW) for _ in range(1000)]
    assert all(one < other for one, other in pairwise(ids))


@given(st.lists(st.tuples(MOMENTS, st.integers(0, 20)), max_size=20))
def test_ids_that_are_made_together_rise_like_others(orders: list[tuple[int, int]]) -> None:
    source = IdSource()
    bunches = [source.several(moment, count) for moment, count in orders]
    assert [len(bunch) for bunch in bunches] == [count for _, count in orders]
    ids = [one for bunch in bunches for one in bunch]
    assert all(len(one) == LENGTH for one in ids)
    assert all(one < other for one, other in pairwise(ids))


def test_a_forked_process_makes_other_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = [bytes(range(34)), bytes(range(100, 134))]
    monkeypatch.setattr("os.urandom", lambda count: chance[0][:count])
    one, twin = IdSource(), IdSource()
    assert one.several(NOW, 7) == twin.several(NOW, 7), "the same so far"
    before = set(one.several(NOW, 7))
    monkeypatch.setattr("os.urandom", lambda count: chance[1][:count])
    assert before.isdisjoint(twin.several(NOW, 7))


@pytest.fixture
def restless_threads() -> Iterator[None]:
    """Threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless_threads")
def test_ids_rise_in_every_thread_and_none_is_made_twice() -> None:
    source = IdSource()

    def make(_: int) -> list[str]:
        return [source.new(NOW) for _ in range(2000)]

    with ThreadPoolExecutor(8) as threads:
        batches = list(threads.map(make, range(8)))
    for batch in batches:
        assert all(one < other for one, other in pairwise(batch))
    assert len({each for batch in batches for each in batch}) == 16_000


def test_two_sources_make_different_ids_in_the_same_millisecond() -> None:
    assert IdSource().new(NOW) != IdSource().new(NOW)


@pytest.mark.parametrize(
    "typed", ["01hf7yat00", "01HF7YAT00", " 01hf7yat00\n", "worker-01HF7YAT00"]
)
def test_an_id_may_be_typed_in_many_ways(typed: str) -> None:
    assert normalise(typed) == "01HF7YAT00"


@given(MOMENTS, st.integers(1, LENGTH))
def test_the_beginning_of_an_id_is_a_prefix(moment: int, length: int) -> None:
    assert is_prefix(IdSource().new(moment)[:length])


@pytest.mark.parametrize("text", ["", "I", "L", "O", "U", "01-2", "%", "_", "é", "0" * 27, "01a"])
def test_what_cannot_begin_an_id_is_no_prefix(text: str) -> None:
    assert not is_prefix(text)
