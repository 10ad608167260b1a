"""`/login`: from a link that works once, or the token, to a browser session."""

from html import escape
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from acode.gateway.common import AtDesk
from acode.gateway.desk import Desk
from acode.gateway.limits import Bucket
from acode.gateway.paper import paper
from acode.gateway.problems import problem
from acode.keys import SESSION_MS, cookie_name, same, session, use_login

router = APIRouter(include_in_schema=False)

_tries = Bucket(0.5, 20)


@router.get("/login")
async def login(
    desk: AtDesk, code: Annotated[str | None, Query(max_length=200)] = None
) -> Response:
    """Let a browser in that has a good code; show the door to others."""
    if code is None:
        return page(200)
    if use_login(desk.project, code, desk.clock):
        return _let_in(desk)
    return page(401, "This link was used already, or it is too old.")


@router.post("/login")
async def login_with_token(desk: AtDesk, request: Request) -> Response:
    """Let a browser in that knows the token."""
    if not _tries.take():
        return problem(429, "too many tries", retry_after=5)
    form = parse_qs((await request.body()).decode("utf-8", "replace"))
    if same(form.get("token", [""])[0].strip(), desk.token):
        return _let_in(desk)
    return page(401, "That is not the token.")


def _let_in(desk: Desk) -> Response:
    response = RedirectResponse("/", status_code=303)
    response.set_cookie(
        cookie_name(desk.token),
        session(desk.token, desk.clock.now()),
        max_age=SESSION_MS // 1000,
        httponly=True,
        samesite="strict",
        path="/",
    )
    return response


def page(status: int, problem_text: str = "") -> HTMLResponse:
    """The door, as people see it."""
    no = f'<p class="no" role="alert">{escape(problem_text)}</p>' if problem_text else ""
    return paper(
        "acode: log in",
        "door",
        f"""<h1>acode</h1>{no}
<p>This dashboard belongs to one project. To come in, open a fresh link:</p>
<p><code>acode dashboard --link</code></p>
<form method="post" action="/login"><label for="token">or paste the token from
<code>.agent/run/token</code></label>
<input id="token" name="token" type="password" autocomplete="off" required>
<button>Log in</button></form>""",
        status,
    )
