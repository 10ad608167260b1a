"""What must hold between settings, beyond the bounds of each."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import to_builtins

from acode.reading.node import Node
from acode.reading.problem import Path, Problem, field_name
from acode.settings.names import find
from acode.settings.tree import Settings

# The first must not be larger than the second.
_ORDER: tuple[tuple[Path, Path], ...] = (
    (("workers", "min"), ("workers", "max")),
    (("workers", "min"), ("workers", "count")),
    (("workers", "count"), ("workers", "max")),
    (("workers", "process", "restartDelayMs"), ("workers", "process", "maxRestartDelayMs")),
    (("autoscale", "min"), ("autoscale", "max")),
    (("autoscale", "min"), ("autoscale", "initial")),
    (("autoscale", "initial"), ("autoscale", "max")),
    (("retry", "initialDelayMs"), ("retry", "maxDelayMs")),
)
_COUNT: Path = ("workers", "count")
_UP: Path = ("autoscale", "scaleUpThreshold")
_DOWN: Path = ("autoscale", "scaleDownThreshold")
_URL: Path = ("store", "url")

_GOOD_URL = re.compile(r"(sqlite:///|postgresql://).", re.DOTALL)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,20}(?=://)")


def conflicts(settings: Settings, root: Node, known: Sequence[Problem]) -> list[Problem]:
    """Every rule that is broken, except in sections that have problems already."""
    wrong = {problem.field.partition(".")[0] for problem in known}
    found = [*_disorder(to_builtins(settings), root), *_bad_url(settings.store.url, root)]
    return [problem for problem in found if problem.field.partition(".")[0] not in wrong]


def _disorder(values: Any, root: Node) -> Iterator[Problem]:
    for low, high in _ORDER:
        # A count that nobody set follows min and max, so it cannot be what is wrong.
        if _COUNT in (low, high) and find(root, _COUNT) is None:
            continue
        if _at(values, low) > _at(values, high):
            yield _conflict(values, root, low, high, ("at least", "at most"))
    if _at(values, _DOWN) >= _at(values, _UP):
        yield _conflict(values, root, _DOWN, _UP, ("more than", "less than"))


def _conflict(values: Any, root: Node, low: Path, high: Path, words: tuple[str, str]) -> Problem:
    """Say it where the user wrote one of the two."""
    above, below = words
    here = find(root, high)
    if here is not None:
        return here.problem(high, f"{above} {_named(values, low)}")
    there = find(root, low) or root
    return there.problem(low, f"{below} {_named(values, high)}")


def _named(values: Any, path: Path) -> str:
    return f"{field_name(path)} ({_at(values, path):,})"


def _at(values: Any, path: Path) -> Any:
    for key in path:
        values = values[key]
    return values


def _bad_url(url: str | None, root: Node) -> Iterator[Problem]:
    if url is None or _GOOD_URL.match(url):
        return
    # The address itself is never shown: it may hold a password.
    scheme = _SCHEME.match(url)
    found = f"an address that begins with {scheme[0]}://" if scheme else "something else"
    here = find(root, _URL) or root
    yield here.problem(_URL, "sqlite:///FILE, postgresql://… or null", found)
