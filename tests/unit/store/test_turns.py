"""Who goes on when, while the loop writes by itself."""

import asyncio
from collections.abc import Sequence
from typing import Any

from acode.clock import ManualClock
from acode.store.sql.group import GroupWriter
from acode.store.sql.writer import Demand, Writes


class Journal:
    """A book in which everything is noted in order."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.lines: list[str] = []

    def commit(self, writes: Writes, **_: bool) -> list[Sequence[Any]]:
        self.lines.append("commit")
        return [requests for _, requests in writes]

    def sync(self) -> None:
        self.lines.append("sync")

    def read(self, query: Any, *arguments: Any) -> Any: ...

    def close(self) -> None: ...


def write(_tx: Any, requests: Sequence[Any]) -> Sequence[Any]:
    return requests


async def test_whoever_need_not_wait_for_the_disk_goes_on_before_it_is_waited_for() -> None:
    book = Journal()
    writer = GroupWriter(book)

    async def ask(name: str, *, early: bool) -> None:
        await writer.write(Demand(write, name, quick=True, early=early))
        book.lines.append(name)

    await asyncio.gather(ask("told", early=False), ask("pool", early=True))
    await asyncio.to_thread(writer.stop)
    assert book.lines[:4] == ["commit", "pool", "sync", "told"]


async def test_what_was_committed_when_the_store_closes_is_still_brought_to_the_disk() -> None:
    book = Journal()
    writer = GroupWriter(book)
    told = asyncio.ensure_future(writer.write(Demand(write, "x", quick=True)))
    await asyncio.sleep(0)
    await asyncio.to_thread(writer.stop)
    assert await told == "x"
    assert book.lines[:2] == ["commit", "sync"]
