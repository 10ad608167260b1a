"""The application put together: the guard, the API, and the dashboard when somebody wants it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.routing import WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from acode import __version__
from acode.gateway import docs, files, login, metrics, peers, problems, queue, tasks, workers
from acode.gateway.desk import Desk
from acode.gateway.guard import Guard
from acode.gateway.stream import EventStream
from acode.spec import TYPES

API_PATHS = ("/api/", "/metrics", "/openapi.json", "/docs", "/login")
ROUTERS = tuple(
    # Tasks before workers: `/api/workers/tasks` is no worker.
    module.router
    for module in (tasks, files, peers, workers, queue, metrics, login, docs)
)
_DESCRIPTION = """Drive and watch a worker pool.

Send `Authorization: Bearer <token>` with the token of `.agent/run/token`."""


def api(desk: Desk) -> FastAPI:
    """Every route but the dashboard's."""
    app = FastAPI(
        title="acode",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
    )
    app.state.desk = desk
    problems.install(app, ROUTERS)
    for router in ROUTERS:
        app.include_router(router)
    app.router.routes.append(WebSocketRoute("/api/events", EventStream(desk).serve))
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    return app


def _document(app: FastAPI) -> dict[str, Any]:
    """OpenAPI, with the key that every route needs."""
    if app.openapi_schema is None:
        document = FastAPI.openapi(app)
        scheme = {"type": "http", "scheme": "bearer"}
        document.setdefault("components", {})["securitySchemes"] = {"token": scheme}
        document["security"] = [{"token": []}]
        task = document["components"]["schemas"]["NewTask"]["properties"]
        types = dict.fromkeys((*TYPES, *app.state.desk.settings.agents))
        # What a command may be depends on this one, which the document cannot say in so many words.
        task["type"]["enum"] = [name for name in types if name != "python"]
        task["type"]["description"] = "python as well; then the command is module:function"
        _bound(document["components"]["schemas"]["TaskLimits"]["properties"], app.state.desk)
        app.openapi_schema = document
    return app.openapi_schema


def _bound(limits: dict[str, Any], desk: Desk) -> None:
    """The most that a task may ask for is a matter of settings."""
    most = desk.ceilings._asdict()
    for name, key in (
        ("memoryMb", "memory_mb"),
        ("cpuPercent", "cpu_percent"),
        ("diskMb", "disk_mb"),
    ):
        for choice in limits[name]["anyOf"]:
            if "maximum" in choice:
                choice["maximum"] = min(choice["maximum"], most[key].most)


class Front:
    """Sends requests to the API, or to the dashboard, which is loaded for its first visitor."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._api = api(desk)
        self._pages: ASGIApp | None = None
        self._loading = asyncio.Lock()
        self._open = AsyncExitStack()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "lifespan" or scope["path"].startswith(API_PATHS):
            await self._api(scope, receive, send)
        else:
            pages = self._pages or await self._load()
            await pages(scope, receive, send)

    async def _load(self) -> ASGIApp:
        async with self._loading:
            if self._pages is None:
                from acode.gateway.dashboard import load

                # A second or two, in which others need not wait.
                app = await asyncio.to_thread(load, self._desk)
                await self._open.enter_async_context(app.router.lifespan_context(app))
                self._pages = app
            return self._pages

    async def close(self) -> None:
        """End the dashboard."""
        await self._open.aclose()


@asynccontextmanager
async def application(desk: Desk, host: str) -> AsyncIterator[Guard]:
    """Everything, guarded."""
    front = Front(desk)
    try:
        keys = {"token": desk.token, "peer_key": desk.peer_key}
        yield Guard(front, **keys, host=host, clock=desk.clock, door=login.page)
    finally:
        await front.close()
        await desk.close()
