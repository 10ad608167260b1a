"""A clean queue on a real server, and servers that a test may treat badly."""

from collections.abc import AsyncIterator, Iterator

import pytest

from acode.store.postgres import PostgresStore
from tests.conformance.kit import assert_sound
from tests.postgres.server import Server, clean_database, shared_server

NEEDS = pytest.mark.needs("postgresql")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/postgres" in item.path.as_posix():
            item.add_marker(NEEDS)


@pytest.fixture
def server() -> Server:
    """Shared with other tests: it must stay as it is."""
    return shared_server()


@pytest.fixture
def url() -> str:
    """A queue without tasks."""
    return clean_database()


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    one = PostgresStore.open(url)
    yield one
    await assert_sound(one)
    await one.close()


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server for one test alone, which keeps what it acknowledged."""
    one = Server(durable=True).start()
    yield one
    one.remove()
