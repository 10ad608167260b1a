"""Closing: twice is fine, using it afterwards is a clear error."""

from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from acode.clock import ManualClock
from acode.errors import StoreUnusable
from acode.ids import encode
from acode.model.ending import Exited
from acode.model.task import Push
from acode.model.verdict import Complete, Report
from acode.store.base import Store, TaskQuery
from tests.conformance.conftest import Engine
from tests.conformance.kit import HOST, World, host, submission, wish


@pytest.fixture
async def closed(engine: Engine, clock: ManualClock, tmp_path: Path) -> AsyncIterator[World]:
    """A closed store that held a completed, a running and an archived task."""
    world = World(engine.open(tmp_path, clock), clock)
    await world.add(id=encode(1))
    await world.complete(await world.lease())
    await world.store.tidy(finished_before=clock.now() + 1, steps_before=0)
    await world.add(id=encode(2))
    await world.store.close()
    yield world
    await world.store.close()


REPORT = Report(task_id=encode(2), token="t", ending=Exited(0), ended_at=0, verdict=Complete())
USES: dict[str, Callable[[Store], Coroutine[Any, Any, Any]]] = {
    "add": lambda store: store.add([submission()], actor="user", queue_size=9),
    "cancel": lambda store: store.cancel(encode(2), actor="user"),
    "retry": lambda store: store.retry(encode(2), actor="user"),
    "drop": lambda store: store.drop(encode(2), actor="user"),
    "pause": lambda store: store.pause(True, actor="user"),
    "claim": lambda store: store.claim(wish()),
    "finish": lambda store: store.finish(REPORT),
    "save_step": lambda store: store.save_step(encode(2), "t", "step", 1),
    "pushed": lambda store: store.pushed(encode(1), 1, Push(remote="origin")),
    "leases": lambda store: store.leases(),
    "join": lambda store: store.join(host(), 1000),
    "renew": lambda store: store.renew(HOST),
    "expire": lambda store: store.expire(HOST),
    "leave": lambda store: store.leave(HOST),
    "hosts": lambda store: store.hosts(),
    "listen": lambda store: store.listen(lambda: None),
    "wishes": lambda store: store.wishes(),
    "resolve": lambda store: store.resolve("0"),
    "get": lambda store: store.get(encode(1)),
    "record": lambda store: store.record(encode(1)),
    "find": lambda store: store.find(TaskQuery()),
    "moves": lambda store: store.moves(0),
    "newest_move": lambda store: store.newest_move(),
    "arrivals": lambda store: store.arrivals(0, 9),
    "counts": lambda store: store.counts(),
    "dead_letters": lambda store: store.dead_letters(),
    "check": lambda store: store.check(),
    "backup": lambda store: store.backup("/nowhere/copy.db"),
    "tidy": lambda store: store.tidy(finished_before=0, steps_before=0),
}


def test_every_method_of_the_contract_is_tried() -> None:
    methods = {name for name in vars(Store) if not name.startswith("_")}
    assert methods == {*USES, "close"}


@pytest.mark.parametrize("use", USES)
async def test_a_closed_store_says_so(closed: World, use: str) -> None:
    with pytest.raises(StoreUnusable, match="the store is closed"):
        await USES[use](closed.store)


async def test_a_store_can_be_closed_twice(closed: World) -> None:
    await closed.store.close()
