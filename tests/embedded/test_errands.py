"""Work that nobody awaits."""

import asyncio

from acode.embedded.eager import Errands

Log = list[object]


def errands(told: Log) -> Errands:
    return Errands(told.append)


async def test_what_does_not_wait_is_done_at_once() -> None:
    done: Log = []

    async def work() -> None:
        done.append(1)

    errands(done).run(work())
    assert done == [1]


async def test_what_waits_goes_on_when_it_can_as_often_as_it_waits() -> None:
    told: Log = []
    first, second = asyncio.Future[int](), asyncio.Future[int]()

    async def work() -> None:
        told.append(await first)
        told.append(await second)

    some = errands(told)
    some.run(work())
    first.set_result(1)
    await asyncio.sleep(0)
    assert told == [1]
    second.set_result(2)
    await some.settle(60)
    assert told == [1, 2]


async def test_an_error_is_told_wherever_it_happens() -> None:
    told: Log = []
    late = asyncio.Future[None]()

    async def fail(first: "asyncio.Future[None] | None") -> None:
        if first is not None:
            await first
        raise ZeroDivisionError

    some = errands(told)
    some.run(fail(None))
    some.run(fail(late))
    late.set_exception(LookupError())
    await some.settle(60)
    assert [type(error) for error in told] == [ZeroDivisionError, LookupError]


async def test_what_is_under_way_can_be_ended() -> None:
    told: Log = []

    async def work() -> None:
        try:
            await asyncio.Future[None]()
        finally:
            told.append("tidied up")

    some = errands(told)
    some.run(work())
    some.later(work())
    await asyncio.sleep(0)
    await some.cancel()
    await some.settle(60)
    assert told == ["tidied up", "tidied up"]
