"""Charts as SVG: no script, the colours of the page, and words for those who cannot see them."""

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10
from typing import NamedTuple

WIDTH, HEIGHT = 600, 120


class Series(NamedTuple):
    """Values over time."""

    name: str
    look: str
    """a | b | c: its colour"""
    values: Sequence[float]


def chart(title: str, series: Sequence[Series], span: str) -> str:
    """Lines over time, the newest at the right; the first one is filled, and above the others."""
    most = max([0.0, *(value for each in series for value in each.values)])
    top = _round_up(most)
    drawn = [_line(each, top, filled=place == 0) for place, each in enumerate(series)]
    lines = "".join(reversed(drawn))
    now = ", ".join(f"{_now(each)} {each.name}" for each in series if each.values)
    words = escape(f"{title}: now {now or 'nothing yet'}; at most {most:,.4g} since {span}")
    return (
        f'<div class="chart"><div class="head"><h2>{escape(title)}</h2>{_legend(series)}</div>'
        f'<div class="plot"><svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" '
        f'role="img" aria-label="{words}">{_grid()}{lines}</svg>'
        f"<span>{top:,.4g}</span></div>"
        f'<div class="axis"><span>{escape(span)}</span><span>now</span></div></div>'
    )


def _round_up(most: float) -> float:
    """A round number above it: the lines move then, and the grid does not."""
    if most <= 1:
        return 1.0
    unit: float = 10.0 ** floor(log10(most))
    return next(unit * step for step in (1, 2, 5, 10) if unit * step >= ceil(most))


def _grid() -> str:
    return "".join(
        f'<line class="grid" x1="0" x2="{WIDTH}" y1="{y}" y2="{y}"/>'
        for y in (1, HEIGHT / 2, HEIGHT - 1)
    )


def _line(series: Series, top: float, *, filled: bool) -> str:
    points = " ".join(_points(series.values, top))
    line = f'<polyline class="{series.look}" points="{points}"/>'
    if not filled or not points:
        return line
    area = f"0,{HEIGHT} {points} {WIDTH},{HEIGHT}"
    return f'<polygon class="{series.look}-fill" points="{area}"/>{line}'


def _points(values: Sequence[float], top: float) -> list[str]:
    if not values:
        return []
    values = values if len(values) > 1 else [values[0], values[0]]
    step = WIDTH / (len(values) - 1)
    return [
        f"{place * step:.1f},{HEIGHT - 1 - value / top * (HEIGHT - 2):.1f}"
        for place, value in enumerate(values)
    ]


def _now(series: Series) -> str:
    return f"{series.values[-1]:,.4g}" if series.values else "-"


def _legend(series: Sequence[Series]) -> str:
    names = (
        f'<span class="{each.look}"><b>{_now(each)}</b> {escape(each.name)}</span>'
        for each in series
    )
    return f'<div class="legend" aria-hidden="true">{"".join(names)}</div>'
