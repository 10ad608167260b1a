"""What the routes share."""

from typing import Annotated, Any, TypeVar

from fastapi import Depends, Path, Request
from pydantic import BaseModel

from acode.gateway.desk import Desk
from acode.gateway.shapes import ProblemAnswer

Shape = TypeVar("Shape", bound=BaseModel)

Responses = dict[int | str, dict[str, Any]]


async def desk_of(request: Request) -> Desk:
    """The desk that the gateway was started with; a plain function would be run in a thread."""
    desk: Desk = request.app.state.desk
    return desk


AtDesk = Annotated[Desk, Depends(desk_of)]
TaskId = Annotated[
    str, Path(description="a task id or a unique prefix of one", pattern=r"^[0-9A-Za-z]{1,26}$")
]
WorkerId = Annotated[
    str,
    Path(
        description="a worker id or a unique prefix of one",
        pattern=r"^(worker-)?[0-9A-Za-z]{1,26}$",
    ),
]

ALWAYS = (400, 401, 403, 422, 429, 500, 503)


def says(
    shape: Any, *refusals: int, status: int = 200, words: str = "what was asked for"
) -> Responses:
    """The answers of a route, for the document."""
    found: Responses = {status: {"model": shape, "description": words}}
    for number in sorted({*ALWAYS, *refusals}):
        found[number] = {"model": ProblemAnswer, "description": "refused"}
    return found
