"""The web dashboard: what the store holds, as people like to look at it."""

from fastapi import FastAPI
from fastapi.responses import RedirectResponse

from acode.gateway.desk import Desk


def load(_desk: Desk) -> FastAPI:
    """The dashboard's application."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.add_api_route("/", lambda: RedirectResponse("/docs"))
    return app
