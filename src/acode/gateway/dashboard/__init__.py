"""The web dashboard: what the store holds, as people like to look at it."""

from fastapi import FastAPI
from nicegui import app as pages
from nicegui import ui

from acode.gateway.dashboard import events, letters, new, pool, task, tasks
from acode.gateway.dashboard.frame import LOGO
from acode.gateway.desk import Desk
from acode.gateway.paper import ASSETS

RECONNECT_SECONDS = 10.0
"""So long a page whose wire broke may come back and go on where it was."""


def load(desk: Desk) -> FastAPI:
    """The dashboard's application; everything that a browser needs is in it."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    for module in (pool, tasks, task, letters, events, new):
        module.register(desk)
    pages.add_static_files("/assets", ASSETS, max_cache_age=0)
    ui.run_with(
        app,
        title="acode",
        favicon=LOGO.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"'),
        dark=None,
        language="en-US",
        tailwind=False,
        reconnect_timeout=RECONNECT_SECONDS,
        show_welcome_message=False,
    )
    return app
