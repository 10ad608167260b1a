"""Many who write at once: nothing is done twice, lost, overlooked or forgotten."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import psycopg
import pytest

from acode.ids import new_id
from acode.model.priority import Priority
from acode.model.state import Status
from acode.model.task import Lease
from acode.model.verdict import Complete
from acode.store.postgres import PostgresStore
from acode.store.postgres.transaction import FAR, NEAR
from tests.conformance.kit import PLENTY, assert_sound, report, submission, wish

HANDS = 5
MANY = """INSERT INTO acode.tasks (id, status, priority, kind, created_at, ready_at, spec)
SELECT n::text, 'pending', 0, 'shell', 1, 1, '{}' FROM generate_series(1, 5000) AS n"""


@pytest.fixture
async def stores(url: str) -> AsyncIterator[list[PostgresStore]]:
    """As many processes would have them: each with connections of its own."""
    many = [PostgresStore.open(url) for _ in range(HANDS)]
    yield many
    await assert_sound(many[0])
    for store in many:
        await store.close()


async def add(store: PostgresStore, **spec: object) -> str:
    one = submission(id=new_id(1_700_000_000_000), **spec)
    return (await store.add([one], actor="user", queue_size=PLENTY))[0].id


async def complete(store: PostgresStore, lease: Lease) -> None:
    await store.finish(report(lease, Complete(), 1))


async def test_every_task_is_claimed_and_completed_once(stores: list[PostgresStore]) -> None:
    ids = [await add(stores[0]) for _ in range(300)]
    seen: Counter[str] = Counter()

    async def work(store: PostgresStore) -> None:
        while leases := await store.claim(wish(3)):
            seen.update(lease.task.id for lease in leases)
            await asyncio.gather(*[complete(store, lease) for lease in leases])

    await asyncio.gather(*[work(store) for store in stores])
    assert seen == Counter(ids)
    assert (await stores[0].counts()).by_status[Status.COMPLETED] == 300


async def test_who_claims_finds_work_as_long_as_there_is_some(stores: list[PostgresStore]) -> None:
    """Although others hold the most urgent tasks in their hands at that moment."""
    for _ in range(HANDS * 20):
        await add(stores[0])
    claims = await asyncio.gather(*[store.claim(wish(20)) for store in stores])
    assert [len(leases) for leases in claims] == [20] * HANDS


async def test_a_claim_passes_over_what_somebody_else_is_claiming(
    stores: list[PostgresStore],
) -> None:
    """And does not wait for it, although that one is the most urgent."""
    first, second = await add(stores[0], priority=Priority.HIGH), await add(stores[0])
    with psycopg.connect(stores[0]._book.address.conninfo) as somebody:
        somebody.execute("SELECT 1 FROM acode.tasks WHERE id = %s FOR UPDATE", (first,))
        stores[1]._book.line().connection.execute("SET lock_timeout = '10s'")
        (lease,) = await stores[1].claim(wish(2))
        assert lease.task.id == second
    (lease,) = await stores[1].claim(wish(2))
    assert lease.task.id == first


async def test_a_claim_finds_work_behind_many_tasks_that_others_are_claiming(
    stores: list[PostgresStore],
) -> None:
    """Further away than a claim looks at first."""
    ids = [await add(stores[0]) for _ in range(NEAR + 5)]
    with psycopg.connect(stores[0]._book.address.conninfo) as somebody:
        somebody.execute("SELECT 1 FROM acode.tasks WHERE id = ANY (%s) FOR UPDATE", (ids[:-1],))
        (lease,) = await stores[1].claim(wish())
        assert lease.task.id == ids[-1]


async def test_a_plan_that_was_made_for_an_empty_queue_does_for_a_full_one(
    url: str, stores: list[PostgresStore]
) -> None:
    with psycopg.connect(url, autocommit=True) as somebody:
        somebody.execute("VACUUM ANALYZE acode.tasks")
    for _ in range(10):
        await stores[0].claim(wish())
    with psycopg.connect(url) as somebody:
        somebody.execute(MANY)
    connection = stores[0]._book.line().connection
    ((name,),) = connection.execute(
        "SELECT name FROM pg_prepared_statements WHERE statement LIKE '%%SKIP LOCKED%%' "
        "AND generic_plans > 0 AND statement NOT LIKE %s",
        (f"%LIMIT {NEAR * FAR}%",),
    ).fetchall()
    plan = connection.execute(f"EXPLAIN EXECUTE {name}(NULL, NULL, 0, 1)".encode()).fetchall()
    assert not [line for (line,) in plan if "Seq Scan on tasks" in line]
    with psycopg.connect(url) as somebody:
        somebody.execute("DELETE FROM acode.tasks")


async def test_a_task_is_freed_by_needs_that_complete_at_once(stores: list[PostgresStore]) -> None:
    for _ in range(20):
        needs = [await add(stores[0]) for _ in range(HANDS)]
        waiting = await add(stores[0], dependencies=tuple(needs))
        leases = await stores[0].claim(wish(HANDS))
        pairs = zip(stores, leases, strict=True)
        await asyncio.gather(*[complete(store, lease) for store, lease in pairs])
        (freed,) = await stores[0].claim(wish(HANDS))
        assert freed.task.id == waiting
        await complete(stores[0], freed)


async def test_a_task_added_while_its_need_completes_is_not_forgotten(
    stores: list[PostgresStore],
) -> None:
    for _ in range(20):
        need = await add(stores[0])
        (lease,) = await stores[0].claim(wish())
        done = complete(stores[0], lease)
        *added, _ = await asyncio.gather(
            *[add(store, dependencies=(need,)) for store in stores[1:]], done
        )
        freed = await stores[0].claim(wish(HANDS))
        assert sorted(lease.task.id for lease in freed) == sorted(str(one) for one in added)
        for lease in freed:
            await complete(stores[0], lease)


async def test_a_task_retried_while_its_need_completes_is_not_forgotten(
    stores: list[PostgresStore],
) -> None:
    for _ in range(20):
        need = await add(stores[0])
        waiting = await add(stores[0], dependencies=(need,))
        await stores[0].cancel(waiting, actor="user")
        (lease,) = await stores[0].claim(wish())
        await asyncio.gather(complete(stores[0], lease), stores[1].retry(waiting, actor="user"))
        (freed,) = await stores[0].claim(wish())
        assert freed.task.id == waiting
        await complete(stores[0], freed)


async def test_a_key_names_one_task_however_many_add_it_at_once(
    stores: list[PostgresStore],
) -> None:
    for number in range(20):
        ids = await asyncio.gather(*[add(store, key=f"key-{number}") for store in stores])
        assert len(set(ids)) == 1
    assert (await stores[0].counts()).by_status[Status.PENDING] == 20


async def test_wishes_that_cross_are_all_obeyed(stores: list[PostgresStore]) -> None:
    """Each store writes several in one transaction, in an order of its own."""
    ids = [await add(stores[0]) for _ in range(20)]

    async def cancel(store: PostgresStore, task_id: str) -> bool:
        try:
            await store.cancel(task_id, actor="user")
        except Exception:
            return False
        return True

    there, back = ids, ids[::-1]
    done = await asyncio.gather(
        *[
            cancel(store, task_id)
            for place, store in enumerate(stores)
            for task_id in (there if place % 2 else back)
        ]
    )
    assert sum(done) == len(ids)
    assert (await stores[0].counts()).by_status[Status.CANCELLED] == 20


async def test_whoever_follows_the_moves_misses_none(stores: list[PostgresStore]) -> None:
    """Numbers are given in one order, and become visible in another."""
    *writers, reader = stores
    seen: list[int] = []
    working = True

    async def follow() -> None:
        while True:
            last_look = not working
            newest = await reader.newest_move()
            found = await reader.moves(seen[-1] if seen else 0, PLENTY)
            seen.extend(move.seq for move in found)
            if last_look and seen[-1] >= newest:
                return

    async def write(store: PostgresStore) -> None:
        for _ in range(60):
            await add(store)
            for lease in await store.claim(wish(2)):
                await complete(store, lease)

    following = asyncio.create_task(follow())
    await asyncio.gather(*[write(store) for store in writers])
    working = False
    await following
    assert seen == sorted(move.seq for move in await reader.moves(0, PLENTY))
    assert len(seen) == len(set(seen))


async def test_a_move_on_its_way_holds_back_those_behind_it(stores: list[PostgresStore]) -> None:
    """Somebody has taken a number and not committed; another one is quicker."""
    await add(stores[0])
    before = await stores[1].newest_move()
    slow = PostgresStore.open(stores[0]._book.address.conninfo, grouped=False)._book
    wire = slow.line().wire
    with wire.train():
        wire.execute("BEGIN")
        tx, _ = slow.begun(wire, "begun")
        tx.note_move(1, "pending", "blocked", "somebody", "slowly")
        tx.write_moves()
        wire.execute("SELECT 1").rows()
        await add(stores[0])
        assert await stores[1].newest_move() == before
        assert len(await stores[1].moves(0)) == 1
        wire.execute("ROLLBACK")
    assert len(await stores[1].moves(0)) == 2
    slow.close()
