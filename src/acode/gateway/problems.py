"""Every failure as an answer: a status, a code, a message, a hint."""

import logging
from collections.abc import Sequence
from typing import Any, cast

import msgspec
from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.routing import Match

from acode.errors import AcodeError, QueueFull

STATUS = {
    "TASK-001": 404,
    "TASK-002": 409,
    "TASK-003": 409,
    "TASK-004": 409,
    "QUEUE-001": 503,
    "QUEUE-003": 507,
    "QUEUE-005": 503,
    "QUEUE-007": 503,
    "HOST-001": 502,
    "WORKER-001": 404,
    "WORKER-002": 503,
    "WORKER-003": 500,
    "WORKER-004": 504,
}
"""What is not here is the caller's mistake if it is about a task, else ours."""
_CALLERS = ("INVALID_TASK", "BLOCKED_COMMAND", "USAGE", "FILE-002")
RETRY_AFTER_SECONDS = 5

_WORDS = {
    400: ("BAD_REQUEST", "the request makes no sense", "see /docs"),
    401: ("UNAUTHORIZED", "a token is needed", "send the token of .agent/run/token as a bearer"),
    403: ("FORBIDDEN", "this is not allowed", "use the address of acode worker status"),
    404: ("NOT_FOUND", "there is nothing at this address", "see /docs for what there is"),
    405: ("METHOD_NOT_ALLOWED", "this address does not take that method", "see /docs"),
    413: ("TOO_LARGE", "the body is too large", "at most 1 MB is taken"),
    422: ("INVALID_REQUEST", "the request does not fit", "see /docs for what is expected"),
    429: ("TOO_MANY_REQUESTS", "too many requests", "wait a moment"),
    500: ("INTERNAL", "something went wrong here", "see .agent/logs/gateway.out"),
}  # fmt: skip


def problem(
    status: int, message: str = "", *, code: str = "", hint: str = "", retry_after: int = 0
) -> Response:
    """An answer that says no."""
    usual = _WORDS.get(status, _WORDS[500])
    words = {"code": code or usual[0], "message": message or usual[1], "hint": hint or usual[2]}
    headers: dict[str, str] = {}
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    if retry_after:
        headers["retry-after"] = str(retry_after)
    return answer({"error": words}, status, headers)


class Json(Response):
    """An answer whose headers need no thought."""

    def __init__(self, data: bytes, status: int, headers: dict[str, str]) -> None:
        self.status_code = status
        self.background = None
        self.body = data
        self.raw_headers = [
            (b"content-length", b"%d" % len(data)),
            (b"content-type", b"application/json"),
            *((name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()),
        ]


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """JSON."""
    return Json(msgspec.json.encode(value), status, headers or {})


def refused(error: AcodeError) -> Response:
    """An error of ours as an answer."""
    status = STATUS.get(error.code, 400 if error.code in _CALLERS else 500)
    retry_after = RETRY_AFTER_SECONDS if isinstance(error, QueueFull) or status == 503 else 0
    return problem(status, str(error), code=error.code, hint=error.hint, retry_after=retry_after)


def broken(error: Exception) -> Response:
    """A mistake of ours as an answer."""
    logging.getLogger("acode").error("a route failed", exc_info=error)
    return problem(500)


def install(app: FastAPI, routers: Sequence[APIRouter]) -> None:
    """Let no failure of a route look different."""

    async def ours(_request: Request, error: Exception) -> Response:
        return refused(cast("AcodeError", error))

    async def http(request: Request, error: Exception) -> Response:
        known = cast("HTTPException", error)
        response = problem(known.status_code)
        response.headers.update(known.headers or {})
        if known.status_code == 405:
            response.headers["allow"] = ", ".join(sorted(_allowed(request, routers)))
        return response

    async def invalid(request: Request, error: Exception) -> Response:
        found = cast("RequestValidationError", error).errors()
        hint = "" if _says_json(request) else "send it with Content-Type: application/json"
        in_body = any(each["loc"][0] == "body" for each in found)
        words = "; ".join(_place(each) for each in found)
        return problem(422, words, hint=hint if in_body else "")

    async def ours_to_mend(_request: Request, error: Exception) -> Response:
        return broken(error)

    app.add_exception_handler(AcodeError, ours)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(Exception, ours_to_mend)


def _allowed(request: Request, routers: Sequence[APIRouter]) -> set[str]:
    """Every method that some route takes at this address."""
    found: set[str] = set()
    for route in (each for router in routers for each in router.routes):
        methods = getattr(route, "methods", None)
        if methods and route.matches(request.scope)[0] is not Match.NONE:
            found |= methods
    return found


def _says_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind.startswith("application/") and kind.endswith("json")


def _place(each: dict[str, Any]) -> str:
    if each["type"] == "json_invalid":
        return f"body: no JSON, from character {each['loc'][-1]} on: {each['ctx']['error']}"
    where = ".".join(str(step) for step in each["loc"])
    return f"{where}: {each['msg']}"
