"""A value and the place where it is written."""

from collections.abc import Mapping
from typing import Any

import msgspec

from acode.reading.problem import Path, Problem, field_name, quoted

MAX_DEPTH = 20
"""How deep lists and mappings may be nested."""

Scalar = None | bool | int | float | str


class Node(msgspec.Struct, frozen=True):
    """A value with its place. An entry of a mapping stands on the line of its key."""

    source: str
    line: int
    value: "Scalar | list[Node] | dict[str, Node]"
    text: str = ""
    """A number or a boolean exactly as it was written: `1.10` must not become 1.1."""

    def problem(self, path: Path, expected: str, found: str | None = None) -> Problem:
        """Say that this value is not what was expected here."""
        return Problem(self.source, self.line, field_name(path), found or shown(self), expected)


def shown(node: Node) -> str:
    """What stands there, in a few words."""
    match node.value:
        case None:
            return "null"
        case str():
            return quoted(node.value)
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return node.text or str(node.value)


def plain(node: Node) -> Any:
    """The bare value, without places."""
    if isinstance(node.value, dict):
        return {key: plain(child) for key, child in node.value.items()}
    if isinstance(node.value, list):
        return [plain(child) for child in node.value]
    return node.value


def node_of(value: Any, place: Node) -> Node:
    """A bare value as a node at the place of another one."""
    if isinstance(value, Mapping):
        value = {str(key): node_of(child, place) for key, child in value.items()}
    elif isinstance(value, list | tuple):
        value = [node_of(child, place) for child in value]
    return Node(place.source, place.line, value)


def unfit(text: str) -> str | None:
    """What in this text no command line, file name or database can carry."""
    if "\0" in text:
        return "text with a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "text that is not UTF-8"
    return None
