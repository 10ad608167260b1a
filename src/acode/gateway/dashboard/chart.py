"""Charts as SVG: no script, the colours of the page, and words for those who cannot see them."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT, LEFT, BOTTOM = 600, 150, 36, 18
_COLOURS = {"a": "var(--chart)", "b": "var(--good)", "c": "var(--bad)"}


class Series(NamedTuple):
    """Values over time."""

    name: str
    look: str
    """a | b | c"""
    values: Sequence[float]


def chart(title: str, series: Sequence[Series], span: str) -> str:
    """Lines over time, the newest at the right; the first one is filled."""
    top = max([1.0, *(value for each in series for value in each.values)])
    parts = [_grid(top, span)]
    for place, each in enumerate(series):
        points = _points(each.values, top)
        if place == 0 and points:
            floor = HEIGHT - BOTTOM
            area = f"{LEFT},{floor} {' '.join(points)} {WIDTH},{floor}"
            parts.append(f'<polygon class="{each.look}-fill" points="{area}"/>')
        parts.append(f'<polyline class="{each.look}" points="{" ".join(points)}"/>')
    now = ", ".join(f"{each.name} {each.values[-1]:,.4g}" for each in series if each.values)
    words = escape(f"{title}: now {now or 'nothing yet'}; at most {top:,.4g} {span}")
    return (
        f'<div class="chart"><svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" '
        f'role="img" aria-label="{words}">{"".join(parts)}</svg>{_legend(series)}</div>'
    )


def _grid(top: float, span: str) -> str:
    floor = HEIGHT - BOTTOM
    lines = "".join(
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH}" y1="{y}" y2="{y}"/>'
        for y in (8, floor / 2, floor)
    )
    return (
        f'{lines}<text x="0" y="14">{top:,.4g}</text><text x="0" y="{floor}">0</text>'
        f'<text x="{LEFT}" y="{HEIGHT - 3}">{escape(span)}</text>'
        f'<text x="{WIDTH}" y="{HEIGHT - 3}" text-anchor="end">now</text>'
    )


def _points(values: Sequence[float], top: float) -> list[str]:
    if not values:
        return []
    values = values if len(values) > 1 else [values[0], values[0]]
    floor, count = HEIGHT - BOTTOM, len(values) - 1
    step = (WIDTH - LEFT) / count
    return [
        f"{LEFT + place * step:.1f},{floor - value / top * (floor - 8):.1f}"
        for place, value in enumerate(values)
    ]


def _legend(series: Sequence[Series]) -> str:
    names = (
        f'<span><i style="background:{_COLOURS[each.look]}"></i>{escape(each.name)}</span>'
        for each in series
    )
    return f'<div class="legend" aria-hidden="true">{"".join(names)}</div>'
