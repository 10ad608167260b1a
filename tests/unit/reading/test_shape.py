"""Values with places against declared types."""

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from acode.reading.document import read
from acode.reading.shape import conform


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Inner(msgspec.Struct, frozen=True, rename="camel"):
    max_size: Annotated[int, Meta(ge=1, le=9)] = 1
    depth: int | None = None


class Needy(msgspec.Struct, frozen=True):
    name: str
    size: int = 0


class Thing(msgspec.Struct, frozen=True, rename="camel"):
    whole: int = 0
    real: Annotated[float, Meta(gt=0)] = 1.0
    text: Annotated[str, Meta(min_length=1, max_length=5)] = "x"
    flag: bool = False
    colour: Colour = Colour.RED
    level: Literal["off", "write"] = "write"
    words: tuple[str, ...] = ("a",)
    needy: tuple[Needy, ...] = ()
    inner: Inner = Inner()
    table: dict[Annotated[str, Meta(pattern=r"\A[a-z]+\Z")], str] = {}
    free: dict[str, Any] = {}
    time_out: Annotated[int | None, Meta(extra={"aliases": ("wait",)})] = None
    odd: Annotated[str, Meta(pattern=r"\A[^-]", extra={"expected": "something without -"})] = "x"


def check(text: str):
    problems = []
    node = read(text.encode(), "t.yml", problems)
    return conform(node, Thing, problems), [str(problem) for problem in problems]


def thing(text: str) -> Thing:
    value, problems = check(text)
    assert problems == []
    assert value is not None
    return value


def problem(text: str) -> str:
    (only,) = check(text)[1]
    return only


def test_a_document_becomes_a_struct():
    text = """
        {whole: 3, real: 2, text: abc, flag: true, colour: blue, level: off, words: [x, y],
         needy: [{name: n, size: 2}], inner: {maxSize: 9, depth: null}, table: {k: v},
         free: {a: [1, {b: null}]}, timeOut: 5}
    """
    assert thing(text) == Thing(
        whole=3,
        real=2.0,
        text="abc",
        flag=True,
        colour=Colour.BLUE,
        level="off",
        words=("x", "y"),
        needy=(Needy("n", 2),),
        inner=Inner(9, None),
        table={"k": "v"},
        free={"a": [1, {"b": None}]},
        time_out=5,
    )


def test_nothing_given_is_all_defaults():
    assert thing("{}") == thing("") == Thing()


def test_snake_case_and_aliases_are_other_names_of_a_field():
    assert thing("inner: {max_size: 4}").inner.max_size == 4
    assert thing("time_out: 4") == thing("wait: 4") == thing("timeOut: 4")


def test_text_takes_numbers_as_they_were_written():
    assert thing("words: [1.10, true, 007]").words == ("1.10", "true", "007")


def test_one_text_is_a_list_of_one():
    assert thing("words: hello").words == ("hello",)


def test_nothing_after_a_list_or_a_section_counts_as_not_given():
    assert thing("words:\ninner:\ntable:\nneedy:\n") == Thing()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("whole: 1.0", "whole: found 1.0, expected a whole number"),
        ("whole: true", "whole: found true, expected a whole number"),
        ("whole: '1'", 'whole: found "1", expected a whole number'),
        ("whole: null", "whole: found null, expected a whole number"),
        ("whole: [1]", "whole: found a list, expected a whole number"),
        ("real: 0", "real: found 0, expected a number above 0"),
        ("real: x", 'real: found "x", expected a number above 0'),
        ("text: ''", 'text: found "", expected text of 1 to 5 characters'),
        ("text: abcdef", 'text: found "abcdef", expected text of 1 to 5 characters'),
        ("flag: 1", "flag: found 1, expected true or false"),
        ("flag: off", 'flag: found "off", expected true or false'),
        ("colour: green", 'colour: found "green", expected one of red, blue'),
        ("level: false", "level: found false, expected one of off, write"),
        ("words: {a: b}", "words: found a mapping, expected a list"),
        ("words: [a, [b]]", "words[1]: found a list, expected text"),
        ("needy: x", 'needy: found "x", expected a list'),
        ("needy: [{}]", "needy[0].name: found nothing, expected text"),
        ("needy: [{name: [x]}]", "needy[0].name: found a list, expected text"),
        ("inner: 5", "inner: found 5, expected a mapping"),
        ("inner: {maxSize: 10}", "inner.maxSize: found 10, expected a whole number from 1 to 9"),
        ("table: [x]", "table: found a list, expected a mapping"),
        ("table: {UP: x}", 'table.UP: found "UP", expected text'),
        ("table: {k: null}", "table.k: found null, expected text"),
        ("odd: -x", 'odd: found "-x", expected something without -'),
        ("- a", "found a list, expected a mapping"),
    ],
)
def test_what_does_not_fit_is_a_problem_with_its_place(text, message):
    assert problem(text) == f"t.yml:1: {message}"


def test_an_unknown_key_is_a_problem_that_says_what_was_meant():
    allowed = "one of maxSize, depth"
    assert problem("inner:\n  maxsise: 4") == (
        f"t.yml:2: inner.maxsise: found an unknown key, expected {allowed} (did you mean maxSize?)"
    )
    assert problem("inner: {zzz: 4}").endswith(f"expected {allowed}")


def test_a_field_under_two_names_is_a_problem():
    assert problem("wait: 1\ntimeOut: 2") == (
        "t.yml:2: timeOut: found wait as well, which means the same, expected one of them"
    )


def test_every_problem_is_reported_not_only_the_first():
    value, problems = check("whole: x\nreal: -1\ncolour: green\nflag: true\nextra: 1\n")
    assert [line.split(": ")[1] for line in problems] == ["extra", "whole", "real", "colour"]
    assert value == Thing(flag=True)


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(-5, 5)
    | st.sampled_from(["", "x", "red", "off", "-", "a\nb"])
)
NAMES = st.sampled_from([*Thing.__struct_encode_fields__, "wait", "time_out", "name", "huh"])
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=25,
)


@given(TREES)
def test_any_structure_is_a_value_or_a_problem(tree):
    problems = []
    node = read(msgspec.json.encode(tree), "t.json", problems)
    assert node is not None
    value = conform(node, Thing, problems)
    assert isinstance(value, Thing) or problems
    # What passes without a problem is what msgspec itself accepts.
    if not problems:
        assert msgspec.convert(msgspec.to_builtins(value), Thing) == value
