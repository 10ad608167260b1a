"""YAML to nodes, straight from the parser's events: depth and size are bounded while reading."""

from collections.abc import Iterator
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    ScalarEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from acode.reading.node import MAX_DEPTH, Node
from acode.reading.problem import Malformed, Path, Problem, printable
from acode.reading.scalar import text_node, word_node

MAX_NODES = 1_000_000
"""More values than any text of the allowed size holds: only aliases can get there."""

Event = Any
"""PyYAML declares the attributes of its events too loosely to be of use."""

_TEXT_TAGS = ("!", "tag:yaml.org,2002:str")


class _Anchored:
    """A value that aliases may repeat, and what each repetition costs."""

    def __init__(self, node: Node, nodes: int, height: int) -> None:
        self.node = node
        self.nodes = nodes
        self.height = height


def read_yaml(text: str, source: str, problems: list[Problem]) -> Node:
    """The one document of a YAML text."""
    try:
        return _Reader(text, source, problems).document()
    # The parser that is written in Python lets a bad escape such as \UFFFFFFFF through to chr().
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise Malformed(_syntax_problem(error, source)) from error


def _syntax_problem(error: Exception, source: str) -> Problem:
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or "characters that YAML does not allow"
    found = f"a mistake ({printable(what)})"
    return Problem(source, mark.line + 1 if mark else 0, "", found, "well-formed YAML")


class _Reader:
    """Turns events into nodes."""

    def __init__(self, text: str, source: str, problems: list[Problem]) -> None:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self._events: Iterator[Event] = yaml.parse(text, Loader=loader)
        self._source = source
        self._problems = problems
        self._anchors: dict[str, _Anchored] = {}
        self._nodes = 0
        self._deepest = 0

    def document(self) -> Node:
        next(self._events)  # the stream starts
        if isinstance(next(self._events), StreamEndEvent):
            return Node(self._source, 1, None)
        root = self._node(next(self._events), (), 0)
        next(self._events)  # the document ends
        after = next(self._events)
        if not isinstance(after, StreamEndEvent):
            raise self._stop(_line(after), (), "a second document", "one document")
        return root

    def _node(self, event: Event, path: Path, depth: int, line: int = 0) -> Node:
        line = line or _line(event)
        self._spend(1, line, path)
        if isinstance(event, AliasEvent):
            return self._alias(event, path, depth, line)
        if event.anchor is None:
            return self._fresh(event, path, depth, line)
        return self._anchored(event, path, depth, line)

    def _fresh(self, event: Event, path: Path, depth: int, line: int) -> Node:
        if isinstance(event, ScalarEvent):
            return self._scalar(event, path, line)
        self._sink(depth + 1, line, path)
        self._refuse_tag(event, path, line)
        if isinstance(event, SequenceStartEvent):
            return Node(self._source, line, self._list(path, depth + 1))
        return Node(self._source, line, self._mapping(path, depth + 1))

    def _list(self, path: Path, depth: int) -> list[Node]:
        items: list[Node] = []
        while not isinstance(event := next(self._events), CollectionEndEvent):
            items.append(self._node(event, (*path, len(items)), depth))
        return items

    def _mapping(self, path: Path, depth: int) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        while not isinstance(event := next(self._events), CollectionEndEvent):
            line = _line(event)
            key = self._key(event, path, line)
            node = self._node(next(self._events), (*path, key), depth, line)
            if key in entries:
                twice = f"the key again (first on line {entries[key].line})"
                self._problems.append(node.problem((*path, key), "each key once", twice))
            entries.setdefault(key, node)
        return entries

    def _key(self, event: Event, path: Path, line: int) -> str:
        if not isinstance(event, ScalarEvent):
            raise self._stop(line, path, "a key that is not text", "text as a key")
        text_node(event.value, self._source, line, path, self._problems)
        return str(event.value)

    def _scalar(self, event: Event, path: Path, line: int) -> Node:
        is_text = event.tag in _TEXT_TAGS
        if not is_text:
            self._refuse_tag(event, path, line)
        if is_text or not event.implicit[0]:
            return text_node(event.value, self._source, line, path, self._problems)
        return word_node(event.value, self._source, line, path, self._problems)

    def _refuse_tag(self, event: Event, path: Path, line: int) -> None:
        if event.tag is not None:
            node = Node(self._source, line, event.tag)
            self._problems.append(node.problem(path, "a value without a tag"))

    def _anchored(self, event: Event, path: Path, depth: int, line: int) -> Node:
        before, outer, self._deepest = self._nodes, self._deepest, depth
        node = self._fresh(event, path, depth, line)
        height = self._deepest - depth
        self._anchors[event.anchor] = _Anchored(node, self._nodes - before, height)
        self._deepest = max(outer, self._deepest)
        return node

    def _alias(self, event: Event, path: Path, depth: int, line: int) -> Node:
        known = self._anchors.get(event.anchor)
        if known is None:
            found = f"the alias *{printable(event.anchor)}"
            raise self._stop(line, path, found, f"an anchor &{printable(event.anchor)} before it")
        self._spend(known.nodes, line, path)
        self._sink(depth + known.height, line, path)
        return Node(self._source, line, known.node.value, known.node.text)

    def _spend(self, nodes: int, line: int, path: Path) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            found = f"aliases that repeat more than {MAX_NODES:,} values"
            raise self._stop(line, path, found, "fewer")

    def _sink(self, depth: int, line: int, path: Path) -> None:
        self._deepest = max(self._deepest, depth)
        if depth > MAX_DEPTH:
            raise self._stop(line, path, "deeper nesting", f"at most {MAX_DEPTH} levels")

    def _stop(self, line: int, path: Path, found: str, expected: str) -> Malformed:
        return Malformed(Node(self._source, line, None).problem(path, expected, found))


def _line(event: Event) -> int:
    return int(event.start_mark.line) + 1
