"""Hosts: who takes part, what each of them holds, and what is told of it."""

import pytest

from acode.errors import LeaseLost
from acode.model.verdict import Release
from tests.conformance.kit import HOST, World, host, wish

OTHER = "01HZZZZZZZZZZZZZZZZZZOTHER"
LEASE_MS = 30_000


async def test_a_host_is_listed_with_what_it_said_of_itself(world: World) -> None:
    said = host(name="venus", address="http://venus:8470", runs={"mode": "docker"})
    await world.store.join(said, LEASE_MS)
    (state,) = await world.store.hosts()
    assert state.host == said
    assert (state.joined_at, state.seen_at) == (world.clock.now(), world.clock.now())
    assert (state.lost_at, state.pool) == (None, None)


async def test_hosts_are_listed_in_the_order_in_which_they_joined(world: World) -> None:
    await world.store.join(host(OTHER), LEASE_MS)
    world.clock.advance(1)
    await world.store.join(host(), LEASE_MS)
    world.clock.advance(1)
    await world.store.join(host(OTHER, pid=8), LEASE_MS)
    states = await world.store.hosts()
    assert [(state.host.id, state.host.pid) for state in states] == [(OTHER, 8), (HOST, 7)]


async def test_a_renewal_publishes_the_pool_and_says_that_the_host_lives(world: World) -> None:
    await world.store.join(host(), LEASE_MS)
    world.clock.advance(5)
    await world.store.renew(HOST, {"workers": [{"id": "w"}]})
    world.clock.advance(5)
    await world.store.renew(HOST)
    (state,) = await world.store.hosts()
    assert state.pool == {"workers": [{"id": "w"}]}
    assert state.seen_at == state.joined_at + 10


async def test_who_has_not_joined_cannot_renew(world: World) -> None:
    with pytest.raises(LeaseLost):
        await world.store.renew(HOST)


async def test_a_task_and_its_attempts_say_where_they_ran(world: World) -> None:
    await world.store.join(host(), LEASE_MS)
    await world.store.join(host(OTHER), LEASE_MS)
    task_id = await world.add()
    (lease,) = await world.store.claim(wish(host_id=HOST))
    assert lease.task.host_id == HOST
    assert (await world.store.record(task_id)).attempts[0].host_id == HOST
    await world.requeue(lease)
    assert (await world.store.get(task_id)).host_id is None
    (again,) = await world.store.claim(wish(host_id=OTHER))
    await world.complete(again)
    record = await world.store.record(task_id)
    assert record.task.host_id == OTHER
    assert [attempt.host_id for attempt in record.attempts] == [HOST, OTHER]


async def test_a_failed_attempt_says_where_it_ran(world: World) -> None:
    await world.store.join(host(), LEASE_MS)
    task_id = await world.add()
    (lease,) = await world.store.claim(wish(host_id=HOST))
    await world.fail(lease)
    record = await world.store.record(task_id)
    assert (record.task.host_id, record.attempts[0].host_id) == (HOST, HOST)


async def test_the_leases_of_one_host_can_be_asked_for(world: World) -> None:
    for each in (HOST, OTHER):
        await world.store.join(host(each), LEASE_MS)
    mine, others = await world.add(), await world.add()
    await world.store.claim(wish(host_id=HOST))
    await world.store.claim(wish(host_id=OTHER))
    assert [lease.task.id for lease in await world.store.leases(HOST)] == [mine]
    assert [lease.task.id for lease in await world.store.leases(OTHER)] == [others]
    assert [lease.task.id for lease in await world.store.leases()] == [mine, others]


async def test_a_renewal_tells_what_the_host_still_holds(world: World) -> None:
    for each in (HOST, OTHER):
        await world.store.join(host(each), LEASE_MS)
    for _ in range(3):
        await world.add()
    mine = await world.store.claim(wish(2, host_id=HOST))
    await world.store.claim(wish(host_id=OTHER))
    assert await world.store.renew(HOST) == {lease.token for lease in mine}
    await world.complete(mine[0])
    assert await world.store.renew(HOST) == {mine[1].token}


async def test_a_host_that_starts_again_holds_what_it_held(world: World) -> None:
    await world.store.join(host(), LEASE_MS)
    await world.add()
    (lease,) = await world.store.claim(wish(host_id=HOST))
    await world.store.join(host(pid=99), LEASE_MS)
    assert await world.store.renew(HOST) == {lease.token}
    await world.complete(lease)


async def test_a_host_that_leaves_is_gone(world: World) -> None:
    await world.store.join(host(), LEASE_MS)
    await world.store.leave(HOST)
    await world.store.leave(HOST)
    assert await world.store.hosts() == []


async def test_a_host_that_leaves_work_behind_stays_known(world: World) -> None:
    await world.store.join(host(), LEASE_MS)
    await world.add()
    (lease,) = await world.store.claim(wish(host_id=HOST))
    await world.store.leave(HOST)
    assert [state.host.id for state in await world.store.hosts()] == [HOST]
    await world.finish(lease, Release("drained"))
    await world.store.leave(HOST)
    assert await world.store.hosts() == []


async def test_what_a_host_in_time_holds_is_not_taken_over(world: World) -> None:
    for each in (HOST, OTHER):
        await world.store.join(host(each), LEASE_MS)
    await world.add()
    (lease,) = await world.store.claim(wish(host_id=HOST))
    world.clock.advance(LEASE_MS - 1)
    await world.store.renew(OTHER)
    assert await world.store.expire(OTHER) == []
    await world.complete(lease)
