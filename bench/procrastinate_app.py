"""Procrastinate's application: one task that does nothing."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from procrastinate import App, PsycopgConnector

defined: dict[str, Callable[[], None]] = {"noop": lambda: None}


@asynccontextmanager
async def app(url: str) -> AsyncIterator[App]:
    """The application with its connections open."""
    one = App(connector=PsycopgConnector(conninfo=url, min_size=2, max_size=20))

    @one.task(name="noop")
    async def noop() -> None:
        defined["noop"]()

    async with one.open_async():
        yield one
