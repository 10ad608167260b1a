"""Through a pooler, and through TLS."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from acode.errors import StoreUnavailable
from acode.model.state import Status
from acode.model.verdict import Complete
from acode.store.postgres import PostgresStore
from tests.conformance.kit import PLENTY, assert_sound, report, submission, wish
from tests.postgres.pooler import certify, pooler
from tests.postgres.server import Server

pytestmark = pytest.mark.needs("pgbouncer")
STORES = 4


def through(url: str, port: int, host: str = "127.0.0.1", asked: str = "") -> str:
    return f"postgresql://postgres@{host}:{port}/{url.rpartition('/')[2]}{asked}"


async def add(store: PostgresStore) -> str:
    (added,) = await store.add([submission()], actor="user", queue_size=PLENTY)
    return added.id


@pytest.mark.parametrize(("mode", "size"), [("transaction", 3), ("session", 2 * STORES)])
async def test_a_queue_works_through_a_pooler(
    server: Server, url: str, mode: str, size: int
) -> None:
    """Every transaction may be given another process of the server."""
    with pooler(server, mode, size=size) as port:
        stores = [PostgresStore.open(through(url, port)) for _ in range(STORES)]
        ids = [task_id for _ in range(20) for task_id in await asyncio.gather(*map(add, stores))]
        seen: Counter[str] = Counter()

        async def work(store: PostgresStore) -> None:
            while leases := await store.claim(wish(3)):
                seen.update(lease.task.id for lease in leases)
                for lease in leases:
                    await store.finish(report(lease, Complete(), 1))

        await asyncio.gather(*map(work, stores))
        assert seen == Counter(ids)
        assert (await stores[0].counts()).by_status[Status.COMPLETED] == len(ids)
        await assert_sound(stores[0])
        for store in stores:
            assert not store._book.line().straight
            await store.close()


async def test_the_bell_is_heard_through_a_pooler_that_lends_sessions(
    server: Server, url: str
) -> None:
    with pooler(server, "session") as port:
        listening, heard = PostgresStore.open(through(url, port)), asyncio.Event()
        await listening.listen(heard.set)
        other = PostgresStore.open(url)
        await add(other)
        await asyncio.wait_for(heard.wait(), 30)
        await listening.close()
        await other.close()


@pytest.fixture(scope="module")
def own_authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certify(tmp_path_factory.mktemp("tls") / "own", "localhost")


@pytest.fixture
def secure(server: Server, own_authority: Path) -> Iterator[int]:
    """The port of something that speaks TLS only, as `localhost`."""
    with pooler(server, "session", tls=own_authority) as port:
        yield port


@pytest.mark.parametrize("asked", ["", "?sslmode=require", "?sslmode=verify-full&sslrootcert={ca}"])
async def test_a_line_is_encrypted(url: str, secure: int, own_authority: Path, asked: str) -> None:
    ca = own_authority / "ca.crt"
    store = PostgresStore.open(through(url, secure, "localhost", asked.format(ca=ca)))
    assert store._book.line().connection.pgconn.ssl_in_use
    await add(store)
    await store.close()


@pytest.mark.parametrize(
    ("host", "asked", "says"),
    [
        ("localhost", "?sslmode=verify-full&sslrootcert={other}", "certificate verify failed"),
        ("127.0.0.1", "?sslmode=verify-full&sslrootcert={own}", "does not match host name"),
        ("localhost", "?sslmode=disable", "SSL required"),
    ],
)
def test_a_server_that_cannot_prove_who_it_is_is_refused(
    url: str, secure: int, own_authority: Path, tmp_path: Path, host: str, asked: str, says: str
) -> None:
    other = certify(tmp_path / "other", "localhost")
    asked = asked.format(own=own_authority / "ca.crt", other=other / "ca.crt")
    with pytest.raises(StoreUnavailable, match=says):
        PostgresStore.open(through(url, secure, host, asked))
