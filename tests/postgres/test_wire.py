"""Statements that travel together: what is asked, what is answered, and what trouble leaves."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acode.clock import RemoteClock
from acode.store.postgres.address import parse
from acode.store.postgres.connection import connect
from acode.store.postgres.wire import PREPARED, Wire, query
from tests.postgres.server import own_database

NUMBERS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@pytest.fixture(scope="module")
def line() -> Iterator[Wire]:
    one = connect(parse(own_database()), RemoteClock())
    with closing(one.connection):
        yield one.wire


@pytest.fixture(params=[True, False], ids=["prepared", "through a pooler"])
def wire(request: pytest.FixtureRequest) -> Iterator[Wire]:
    one = connect(parse(own_database()), RemoteClock())
    with closing(one.connection):
        yield Wire(one.connection, prepares=request.param)


def one(wire: Wire, statement: str, parameters: Any = ()) -> Any:
    with wire.train():
        return wire.execute(statement, parameters).rows()[0][0]


def test_a_name_is_one_parameter_however_often_it_stands() -> None:
    asked = query("SELECT %(a)s, %(b)s::text[], %(a)s")
    assert asked.text == b"SELECT $1, $2::text[], $1"
    assert asked.given({"b": [], "a": 1, "c": 2}) == [1, []]
    assert query("SELECT %s, %s").text == b"SELECT $1, $2"


@given(NUMBERS)
def test_numbers_come_back(line: Wire, value: int) -> None:
    assert one(line, "SELECT %s::bigint", [value]) == value


@given(TEXTS)
def test_texts_come_back(line: Wire, value: str) -> None:
    assert one(line, "SELECT %s::text", [value]) == value


@given(st.lists(st.none() | NUMBERS))
def test_lists_of_numbers_come_back(line: Wire, values: list[int | None]) -> None:
    assert one(line, "SELECT %s::bigint[]", [values]) in (values, [])
    if any(value is not None for value in values):
        assert one(line, "SELECT %s::bigint[]", [values]) == values


@given(st.lists(st.none() | TEXTS))
def test_lists_of_texts_come_back(line: Wire, values: list[str | None]) -> None:
    rows = "SELECT * FROM unnest(%(values)s::text[], %(places)s::bigint[]) ORDER BY 2"
    with line.train():
        found = line.execute(rows, {"values": values, "places": list(range(len(values)))}).rows()
    assert [value for value, _ in found] == values


@pytest.mark.parametrize("value", [None, True, False])
def test_what_is_neither_number_nor_text_comes_back(wire: Wire, value: bool | None) -> None:
    assert one(wire, "SELECT %s::boolean", [value]) is value


@pytest.mark.parametrize("value", ["a\0b", ["a\0b"]])
def test_nothing_is_cut_at_a_nul(wire: Wire, value: Any) -> None:
    with pytest.raises(psycopg.DataError):
        one(wire, "SELECT %s::text", [value])


def test_answers_are_those_of_their_statements_in_any_order(wire: Wire) -> None:
    with wire.train():
        answers = [wire.execute("SELECT %s::bigint", [number]) for number in range(50)]
        assert answers[20].row() == (20,)
        assert answers[3].row() == (3,)
        wire.sync()
        answers += [wire.execute("SELECT %s::bigint", [number]) for number in range(50, 60)]
    assert [answer.row() for answer in answers] == [(number,) for number in range(60)]


def test_much_to_say_on_both_sides_at_once_holds_nobody_up(wire: Wire) -> None:
    """Neither side reads while it waits until the other one does, unless somebody takes care."""
    long = "x" * 2_000_000
    with wire.train():
        answers = [wire.execute("SELECT %s::text", [long]) for _ in range(30)]
    assert all(answer.row() == (long,) for answer in answers)


def test_the_server_is_not_asked_to_keep_every_statement(wire: Wire) -> None:
    for number in range(PREPARED + 20):
        assert one(wire, f"SELECT {number} + %s::bigint", [1]) == number + 1
    assert one(wire, "SELECT count(*) FROM pg_prepared_statements") <= PREPARED


def test_who_changes_his_mind_leaves_nothing_and_may_go_on(wire: Wire) -> None:
    def add() -> None:
        with wire.train():
            wire.execute("BEGIN")
            wire.execute("CREATE TEMPORARY TABLE never (n bigint)")
            raise LookupError

    with pytest.raises(LookupError):
        add()
    assert one(wire, "SELECT to_regclass('never')") is None


def test_the_first_trouble_is_told(wire: Wire) -> None:
    def fail() -> None:
        with wire.train():
            wire.execute("SELECT 1")
            wire.execute("SELECT 1 / 0")
            wire.execute("SELECT nonsense")

    with pytest.raises(psycopg.errors.DivisionByZero):
        fail()


def test_a_count_is_that_of_its_statement(wire: Wire) -> None:
    with wire.train():
        wire.execute("CREATE TEMPORARY TABLE several (n bigint)")
        wire.execute("INSERT INTO several SELECT generate_series(1, 5)")
        assert wire.execute("DELETE FROM several WHERE n > %s", [2]).count() == 3
        assert wire.execute("SELECT n FROM several ORDER BY n").rows() == [(1,), (2,)]
