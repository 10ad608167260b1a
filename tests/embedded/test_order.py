"""Properties of the queue inside a program: its order and its bounds, whatever is submitted."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import acode
from acode.errors import InvalidTask
from acode.runner.values import plain
from tests.embedded.conftest import until

LEVELS = ["high", "medium", "low", "background"]
_ran: list[int] = []


class Gate:
    """Holds workers until it is opened; asyncio's events belong to one loop, tests have many."""

    opened: asyncio.Event


@acode.handler("record")
async def record(ctx: acode.Context, number: int) -> None:
    _ran.append(number)


@acode.handler("gate")
async def gate(ctx: acode.Context) -> None:
    await Gate.opened.wait()


@settings(max_examples=30)
@given(st.lists(st.sampled_from(LEVELS), max_size=30))
def test_tasks_begin_by_priority_then_in_turn(priorities: list[str]) -> None:
    async def run() -> None:
        Gate.opened = asyncio.Event()
        _ran.clear()
        async with acode.Pool(workers=1) as pool:
            blocked = await pool.submit(gate)
            handles = [
                await pool.submit(record, number, priority=priority)
                for number, priority in enumerate(priorities)
            ]
            Gate.opened.set()
            await asyncio.gather(blocked.result(), *(handle.result() for handle in handles))

    asyncio.run(run())
    wanted = sorted(range(len(priorities)), key=lambda number: LEVELS.index(priorities[number]))
    assert _ran == wanted


@settings(max_examples=30)
@given(
    st.integers(1, 4),
    st.integers(1, 8),
    st.lists(st.integers(1, 5), max_size=12),
)
def test_the_queue_never_holds_more_than_it_may(
    workers: int, queue_size: int, batches: list[int]
) -> None:
    """A batch comes in whole or not at all, exactly when there is room for it."""

    async def run() -> None:
        Gate.opened = asyncio.Event()
        async with acode.Pool(workers=workers, queue_size=queue_size) as pool:
            running = []
            for _ in range(workers):
                running.append(await pool.submit(gate))
                await until(lambda: not pool.stats().queued_tasks)
            taken: list[Any] = []
            for batch in batches:
                fits = len(taken) + batch <= queue_size
                try:
                    taken += await pool.submit_many(record, [(0,)] * batch)
                except acode.QueueFull:
                    assert not fits
                else:
                    assert fits
                assert pool.stats().queued_tasks == len(taken) <= queue_size
            assert pool.stats().queue_high_water <= queue_size
            Gate.opened.set()
            await asyncio.gather(*(handle.result() for handle in (*running, *taken)))
            assert pool.stats().queued_tasks == 0

    asyncio.run(run())


texts = st.text(st.characters(exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=20,
)
FOREIGN = [object(), {1}, b"", float("inf"), 1 << 64, "\ud800", range(3)]


@given(json_values)
def test_every_json_value_is_taken_as_it_is(value: Any) -> None:
    assert plain(value, "value") == value
    assert plain((value, value), "value") == [value, value]


@given(json_values, st.sampled_from(FOREIGN))
def test_anything_else_inside_is_refused(value: Any, foreign: Any) -> None:
    for wrong in ([value, foreign], {"key": foreign}, [[[foreign]]]):
        with pytest.raises(InvalidTask, match="value"):
            plain(wrong, "value")


def test_a_value_that_contains_itself_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(InvalidTask, match="contains itself"):
        plain(circle, "value")
