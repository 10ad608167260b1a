"""What is known of a handler's signature."""

import dataclasses
from typing import Any

from acode.runner.handlers import Handler


@dataclasses.dataclass
class Point:
    """A type that arguments are made into."""

    x: int


def move(ctx: Any, point: "Point", far: int) -> "Point": ...


def go_home(ctx: Any, place: "NotYet") -> None: ...  # type: ignore[name-defined]  # noqa: F821


def test_arguments_and_results_become_what_they_are_declared_to_be() -> None:
    handler = Handler("move", move, None)
    assert handler.shaped([{"x": 1}, 2]) == [Point(1), 2]
    assert handler.returned({"x": 3}) == Point(3)


def test_what_was_prepared_is_not_looked_at_again() -> None:
    handler = Handler("move", move, None)
    handler.prepare()
    move.__annotations__, kept = {}, move.__annotations__
    try:
        assert handler.shaped([{"x": 1}, 2]) == [Point(1), 2]
    finally:
        move.__annotations__ = kept


def test_a_name_that_is_not_there_yet_is_looked_for_again() -> None:
    handler = Handler("go_home", go_home, None)
    handler.prepare()
    globals()["NotYet"] = Point
    try:
        assert handler.shaped([{"x": 1}]) == [Point(1)]
    finally:
        del globals()["NotYet"]
