"""The bell between machines."""

import asyncio

from acode.model.verdict import RetryAt
from acode.store.postgres import PostgresStore
from tests.conformance.kit import HOST, PLENTY, TIMEOUT, host, report, submission, wish
from tests.postgres.server import Server


class Ear:
    """Counts rings."""

    def __init__(self) -> None:
        self.rings = 0
        self._rung = asyncio.Event()

    def ring(self) -> None:
        self.rings += 1
        self._rung.set()

    async def heard(self) -> None:
        async with asyncio.timeout(20):
            await self._rung.wait()
        self._rung.clear()


async def test_who_listens_hears_of_all_that_a_pool_waits_for(
    store: PostgresStore, url: str
) -> None:
    ear, other = Ear(), PostgresStore.open(url)
    await other.listen(ear.ring)
    task = submission()
    await store.add([task], actor="user", queue_size=PLENTY)
    await ear.heard()
    (lease,) = await store.claim(wish())
    await store.cancel(task.id, actor="user")
    await ear.heard()
    await store.finish(report(lease, RetryAt(0, TIMEOUT, "again"), 0))
    await store.retry(task.id, actor="user")
    await ear.heard()
    for paused in (True, False):
        await store.pause(paused, actor="user")
        await ear.heard()
    await other.close()


async def test_nobody_is_woken_by_what_concerns_no_pool_or_by_himself(
    store: PostgresStore, url: str
) -> None:
    ear, other = Ear(), PostgresStore.open(url)
    await other.listen(ear.ring)
    await other.add([submission()], actor="user", queue_size=PLENTY)
    await store.join(host(), 1000)
    await store.renew(HOST)
    (lease,) = await store.claim(wish())
    await store.save_step(lease.task.id, lease.token, "one", 1)
    await store.add([submission()], actor="user", queue_size=PLENTY)
    await ear.heard()
    assert ear.rings == 1
    await other.close()


async def test_the_bell_is_heard_again_after_the_server_was_killed(own_server: Server) -> None:
    url, ear = own_server.url(), Ear()
    store, other = PostgresStore.open(url), PostgresStore.open(url)
    await other.listen(ear.ring)
    own_server.kill_hard()
    own_server.start()
    await ear.heard()  # whatever was missed
    await store.add([submission()], actor="user", queue_size=PLENTY)
    await ear.heard()
    await store.close()
    await other.close()


async def test_a_listener_outlives_a_server_that_is_down(own_server: Server) -> None:
    store, ear = PostgresStore.open(own_server.url()), Ear()
    own_server.stop()
    await store.listen(ear.ring)
    own_server.start()
    await ear.heard()
    await store.close()
