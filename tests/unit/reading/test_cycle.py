"""Circles among things that wait."""

from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from acode.reading.cycle import cycles


def test_a_circle_is_the_way_round():
    assert list(cycles({"a": ["b"], "b": ["c"], "c": ["a"]})) == [["a", "b", "c", "a"]]


def test_what_waits_for_itself_is_the_smallest_circle():
    assert list(cycles({"a": ["a"]})) == [["a", "a"]]


def test_only_the_circle_is_told_not_the_way_to_it():
    assert list(cycles({"x": ["a"], "a": ["b"], "b": ["a"]})) == [["a", "b", "a"]]


def test_separate_circles_are_all_told():
    assert list(cycles({"a": ["a"], "b": ["c"], "c": ["b"]})) == [["a", "a"], ["b", "c", "b"]]


def test_a_line_of_ten_thousand_needs_no_recursion():
    waits_for = {str(n): [str(n + 1)] for n in range(10_000)}
    assert list(cycles(waits_for)) == []
    assert len(next(cycles({**waits_for, "9999": ["0"]}))) == 10_001


NAMES = "abcdef"
GRAPHS = st.dictionaries(st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), max_size=4))


@given(GRAPHS)
def test_a_circle_is_found_exactly_when_there_is_one(waits_for):
    found = list(cycles(waits_for))
    try:
        TopologicalSorter(waits_for).prepare()
    except CycleError:
        assert found
    else:
        assert not found
    for way in found:
        assert way[0] == way[-1]
        assert all(after in waits_for[name] for name, after in pairwise(way))
