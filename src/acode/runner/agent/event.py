"""One line of an agent's stream as an event: whatever it holds, reading it never fails."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

Event = Mapping[str, Any]


def event_of(line: bytes) -> Event | None:
    """The event that a line is: an object with a type. `None` for every other line."""
    if not line.lstrip().startswith(b"{"):
        return None
    value = _decoded(line)
    return value if isinstance(value, dict) and isinstance(value.get("type"), str) else None


def _decoded(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except UnicodeDecodeError:
        return _decoded(line.decode("utf-8", "replace").encode())
    except (ValueError, RecursionError):
        return None


def text(event: Event, *path: str) -> str:
    """A text somewhere inside; empty if there is none."""
    value = _at(event, path)
    return value if isinstance(value, str) else ""


def number(event: Event, *path: str) -> float | None:
    """A number somewhere inside that is not negative."""
    value = _at(event, path)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e18:
        return None
    return value


def part(event: Event, *path: str) -> Event:
    """An object somewhere inside; an empty one if there is none."""
    value = _at(event, path)
    return value if isinstance(value, dict) else {}


def parts(event: Event, *path: str) -> Iterator[Event]:
    """The objects of a list somewhere inside; a text counts as one block of text."""
    value = _at(event, path)
    if isinstance(value, str):
        yield {"type": "text", "text": value}
    elif isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def _at(event: Event, path: tuple[str, ...]) -> Any:
    value: Any = event
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
