"""`/docs`: the OpenAPI document for people. One page, no script, nothing from elsewhere."""

import json
from collections.abc import Iterator
from html import escape
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from acode.gateway.common import AtDesk
from acode.gateway.paper import paper

router = APIRouter(include_in_schema=False)


@router.get("/docs")
async def page(desk: AtDesk, request: Request) -> HTMLResponse:
    """Every route with what it takes and gives."""
    document = request.app.openapi()
    body = "".join(_sections(document, desk.url))
    return paper(
        "acode API",
        "paper",
        f"""<h1>acode API</h1><p>Every request carries <code>Authorization: Bearer …</code> with
what <code>.agent/run/token</code> holds. The same as a document:
<a href="/openapi.json">/openapi.json</a>. Events: <code>WS /api/events?since=…</code>.</p>
{body}""",
    )


def _sections(document: dict[str, Any], url: str) -> Iterator[str]:
    by_tag: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            tag = route.get("tags", ["other"])[0]
            by_tag.setdefault(tag, []).append(_route(document, url, path, method, route))
    for tag, routes in by_tag.items():
        yield f"<h2>{escape(tag)}</h2>{''.join(routes)}"


def _route(
    document: dict[str, Any], url: str, path: str, method: str, route: dict[str, Any]
) -> str:
    parts = [f"<p>{escape(route.get('description', ''))}</p>"]
    parts += [_parameter(each) for each in route.get("parameters", ())]
    if body := route.get("requestBody"):
        schema = body["content"]["application/json"]["schema"]
        parts.append(f"<p><small>body</small></p>{_schema(document, schema)}")
    curl = (
        f'curl -X {method.upper()} -H "Authorization: Bearer $(cat .agent/run/token)" {url}{path}'
    )
    parts.append(f"<pre>{escape(curl)}</pre>")
    good: dict[str, Any] = next(
        (each for status, each in route["responses"].items() if status < "3"), {}
    )
    for kind, content in good.get("content", {}).items():
        parts.append(f"<p><small>gives {escape(kind)}</small></p>")
        parts.append(_schema(document, content.get("schema", {})))
    head = f"<b>{method.upper()}</b><code>{escape(path)}</code>"
    words = escape(route.get("summary", ""))
    return f"<details><summary>{head}<small>{words}</small></summary>{''.join(parts)}</details>"


def _parameter(each: dict[str, Any]) -> str:
    words = each.get("description") or each["schema"].get("description") or ""
    place = f"{each['in']} {words}"
    return f"<p><code>{escape(each['name'])}</code> <small>{escape(place)}</small></p>"


def _schema(document: dict[str, Any], schema: dict[str, Any]) -> str:
    name = schema.get("$ref", "").rpartition("/")[2]
    found = document["components"]["schemas"].get(name, schema)
    return f"<pre>{escape(json.dumps(found, indent=1))}</pre>" if found else ""
