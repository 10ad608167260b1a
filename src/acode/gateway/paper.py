"""Plain pages: no script, nothing from elsewhere."""

from functools import cache
from pathlib import Path

from fastapi.responses import HTMLResponse

ASSETS = Path(__file__).with_name("assets")


@cache
def _style() -> str:
    return (ASSETS / "plain.css").read_text(encoding="utf-8")


def paper(title: str, look: str, body: str, status: int = 200) -> HTMLResponse:
    """A page of this look."""
    return HTMLResponse(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<style>{_style()}</style></head><body class="{look}"><main>{body}</main></body></html>',
        status,
    )
