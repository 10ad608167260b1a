"""Leases by time: what a silent host held goes to one other, and its late words are refused."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from acode.clock import ManualClock
from acode.errors import LeaseLost
from acode.model.ending import Lost
from acode.model.state import Status
from acode.model.verdict import Complete, RetryAt
from acode.store.postgres import PostgresStore
from tests.conformance.kit import TIMEOUT, World, host, report, wish

MARS, VENUS, PLUTO = (f"01HZZZZZZZZZZZZZZZZZZZ{name}" for name in ("MARS", "VENS", "PLTO"))
LEASE_MS = 30_000


@pytest.fixture
async def world(url: str) -> AsyncIterator[World]:
    clock = ManualClock()
    store = PostgresStore.open(url, clock, grouped=False)
    for each in (MARS, VENUS, PLUTO):
        await store.join(host(each), LEASE_MS)
    yield World(store, clock)
    assert await store.check() == []
    await store.close()


async def silence(world: World) -> None:
    """All but MARS renew while its lease runs out."""
    world.clock.advance(LEASE_MS - 1)
    for each in (VENUS, PLUTO):
        await world.store.renew(each)
    world.clock.advance(1)


async def test_what_a_silent_host_held_goes_to_the_one_who_notices(world: World) -> None:
    task_id = await world.add()
    (lost,) = await world.store.claim(wish(host_id=MARS))
    await silence(world)
    (taken,) = await world.store.expire(VENUS)
    assert (taken.task.id, taken.number, taken.worker_id) == (task_id, 1, lost.worker_id)
    assert taken.task.host_id == VENUS
    assert taken.token != lost.token
    assert await world.store.expire(PLUTO) == []
    assert await world.store.renew(VENUS) == {taken.token}


async def test_the_late_result_of_a_silent_host_is_refused(world: World) -> None:
    await world.add()
    (lost,) = await world.store.claim(wish(host_id=MARS))
    await silence(world)
    (taken,) = await world.store.expire(VENUS)
    before = await world.everything()
    with pytest.raises(LeaseLost):
        await world.complete(lost)
    with pytest.raises(LeaseLost):
        await world.store.save_step(lost.task.id, lost.token, "step", 1)
    assert await world.everything() == before
    again = RetryAt(world.clock.now(), TIMEOUT, "its host fell silent")
    await world.finish(taken, again, ending=Lost("its host fell silent"))
    (next_,) = await world.store.claim(wish(host_id=PLUTO))
    assert (next_.number, next_.task.attempt_count) == (2, 2)
    await world.complete(next_)
    record = await world.store.record(lost.task.id)
    assert [attempt.host_id for attempt in record.attempts] == [VENUS, PLUTO]


async def test_a_silent_host_finds_out_and_can_come_back(world: World) -> None:
    await world.add()
    await world.store.claim(wish(host_id=MARS))
    await silence(world)
    await world.store.expire(VENUS)
    with pytest.raises(LeaseLost):
        await world.store.renew(MARS)
    await world.add()
    assert await world.store.claim(wish(host_id=MARS)) == []
    await world.store.join(host(MARS), LEASE_MS)
    assert await world.store.renew(MARS) == frozenset()
    assert len(await world.store.claim(wish(host_id=MARS))) == 1


async def test_a_host_that_is_late_but_was_not_missed_keeps_what_it_has(world: World) -> None:
    await world.add()
    (lease,) = await world.store.claim(wish(host_id=MARS))
    await silence(world)
    assert await world.store.renew(MARS) == {lease.token}
    assert await world.store.expire(VENUS) == []
    await world.complete(lease)


async def test_a_host_out_of_time_gets_no_work_and_takes_nothing_over(world: World) -> None:
    await world.add()
    await world.store.claim(wish(host_id=VENUS))
    await world.add()
    world.clock.advance(LEASE_MS)
    assert await world.store.claim(wish(host_id=MARS)) == []
    assert await world.store.expire(MARS) == []


async def test_who_has_not_joined_gets_no_work(world: World) -> None:
    await world.add()
    assert await world.store.claim(wish(host_id="01HZZZZZZZZZZZZZZZZSTRANGR")) == []


async def test_who_takes_over_and_falls_silent_is_taken_over_from(world: World) -> None:
    await world.add()
    await world.store.claim(wish(host_id=MARS))
    await silence(world)
    await world.store.expire(VENUS)
    world.clock.advance(LEASE_MS - 1)
    await world.store.renew(PLUTO)
    world.clock.advance(1)
    (taken,) = await world.store.expire(PLUTO)
    await world.complete(taken)


async def test_a_claim_that_was_on_its_way_when_the_host_was_lost_is_found_later(
    world: World,
) -> None:
    """It was committed after the others had looked for what the host held."""
    await world.add()
    await silence(world)
    assert await world.store.expire(VENUS) == []
    await world.store.claim(wish(host_id=PLUTO))
    world.store._book.line().connection.execute(  # type: ignore[attr-defined]
        "UPDATE acode.tasks SET host_id = %s", (MARS,)
    )
    assert len(await world.store.expire(VENUS)) == 1


async def test_lost_hosts_are_listed_for_a_day(world: World) -> None:
    await silence(world)
    await world.store.expire(VENUS)
    lost = {state.host.id: state.lost_at for state in await world.store.hosts()}
    assert lost == {MARS: world.clock.now(), VENUS: None, PLUTO: None}
    world.clock.advance(86_400_001)
    await world.store.join(host(VENUS), LEASE_MS)
    await world.store.expire(VENUS)
    assert MARS not in {state.host.id for state in await world.store.hosts()}


async def test_of_many_who_notice_at_once_one_gets_each_lease(url: str) -> None:
    clock = ManualClock()
    stores = [PostgresStore.open(url, clock) for _ in range(6)]
    names = [f"01HZZZZZZZZZZZZZZZZZZZZ{number:03}" for number in range(6)]
    first, world = stores[0], World(stores[0], clock)
    await first.join(host(MARS), LEASE_MS)
    for _ in range(20):
        await world.add()
    lost = await first.claim(wish(20, host_id=MARS))
    clock.advance(LEASE_MS)
    for name in names:
        await first.join(host(name), LEASE_MS)
    taken = await asyncio.gather(
        *[store.expire(name) for store, name in zip(stores, names, strict=True)]
    )
    ids = [lease.task.id for leases in taken for lease in leases]
    assert sorted(ids) == sorted(lease.task.id for lease in lost)
    for leases in taken:
        for lease in leases:
            await first.finish(report(lease, Complete(), clock.now()))
    assert (await first.counts()).by_status[Status.COMPLETED] == 20
    for store in stores:
        await store.close()


async def test_leases_run_by_the_clock_of_the_server(store: PostgresStore, url: str) -> None:
    """The clocks of the hosts do not matter: nobody here brings one."""
    other = PostgresStore.open(url)
    await store.join(host(MARS), 300)
    await other.join(host(VENUS), 60_000)
    world = World(store, ManualClock())
    await world.add()
    await store.claim(wish(host_id=MARS))
    assert await other.expire(VENUS) == []
    while not (taken := await other.expire(VENUS)):
        (mars, _) = await other.hosts()
        assert mars.lost_at is None
        await asyncio.sleep(0.02)
    await other.finish(report(taken[0], Complete(), 0))
    await other.close()
