"""The schema: made once however many try, brought up to date, refused if it is too new."""

import asyncio

import psycopg
import pytest

from acode.errors import StoreDamaged, StoreRefused, StoreTooNew
from acode.store.postgres import PostgresStore
from acode.store.postgres.connection import newest_version
from tests.conformance.kit import PLENTY, assert_sound, submission
from tests.postgres.server import Server


@pytest.fixture
def empty(server: Server) -> str:
    """A database without a schema."""
    url = server.database("fresh")
    server.execute("DROP SCHEMA IF EXISTS acode CASCADE", "fresh")
    return url


async def test_of_many_who_open_at_once_one_makes_the_schema(empty: str) -> None:
    opened = await asyncio.gather(
        *[asyncio.to_thread(PostgresStore.open, empty, None, grouped=False) for _ in range(8)]
    )
    for store in opened:
        await store.add([submission()], actor="user", queue_size=PLENTY)
    assert opened[0].describe()["schemaVersion"] == newest_version()
    await assert_sound(opened[0])
    for store in opened:
        await store.close()


async def test_a_schema_of_a_newer_acode_is_refused_and_not_touched(
    empty: str, server: Server
) -> None:
    await PostgresStore.open(empty, grouped=False).close()
    server.execute("UPDATE acode.schema_version SET version = 99", "fresh")
    with pytest.raises(StoreTooNew, match="schema 99"):
        PostgresStore.open(empty, grouped=False)
    assert server.execute("SELECT version FROM acode.schema_version", "fresh") == [(99,)]


async def test_a_schema_that_somebody_tore_apart_is_named(empty: str, server: Server) -> None:
    store = PostgresStore.open(empty, grouped=False)
    server.execute("DROP TABLE acode.tallies", "fresh")
    with pytest.raises(StoreDamaged, match="not whole"):
        await store.counts()
    await store.close()


async def test_a_user_without_rights_is_told_what_to_ask_for(empty: str, server: Server) -> None:
    server.execute("DROP ROLE IF EXISTS poor")
    server.execute("CREATE ROLE poor LOGIN")
    with pytest.raises(StoreRefused, match="lacks rights") as refused:
        PostgresStore.open(server.url("fresh", "poor"), grouped=False)
    assert "CREATE SCHEMA acode AUTHORIZATION" in refused.value.hint
    server.execute("CREATE SCHEMA acode AUTHORIZATION poor", "fresh")
    store = PostgresStore.open(server.url("fresh", "poor"), grouped=False)
    await store.add([submission()], actor="user", queue_size=PLENTY)
    await store.close()
    with psycopg.connect(empty) as connection:
        assert connection.execute("SELECT count(*) FROM acode.tasks").fetchone() == (1,)
