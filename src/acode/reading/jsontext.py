"""JSON to nodes. Written by hand because the parsers at hand forget lines and doubled keys."""

import re
from json import JSONDecodeError, JSONDecoder
from typing import NoReturn

from acode.reading.node import MAX_DEPTH, Node
from acode.reading.problem import Malformed, Path, Problem, quoted
from acode.reading.scalar import text_node, word_node

_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORD = re.compile(r"true|false|null")
_STRINGS = JSONDecoder()


def read_json(text: str, source: str, problems: list[Problem], line: int = 1) -> Node:
    """The one value of a JSON text that begins on this line."""
    return _Reader(text, source, problems, line).document()


def read_json_lines(text: str, source: str, problems: list[Problem]) -> Node:
    """A list with the value of every line that is not blank."""
    items: list[Node] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            items.append(read_json(line, source, problems, number))
        except Malformed as stop:
            problems.append(stop.problem)
    return Node(source, 1, items)


class _Reader:
    """Reads from left to right; `_at` is always at the next thing that is not space."""

    def __init__(self, text: str, source: str, problems: list[Problem], line: int) -> None:
        self._text = text
        self._source = source
        self._problems = problems
        self._line = line
        self._at = 0
        self._skip_to(0)

    def document(self) -> Node:
        root = self._value((), 0)
        if self._at < len(self._text):
            self._stop((), "the end")
        return root

    def _value(self, path: Path, depth: int, line: int = 0) -> Node:
        line = line or self._line
        letter = self._peek()
        if letter and letter in "{[":
            if depth == MAX_DEPTH:
                self._stop(path, f"at most {MAX_DEPTH} levels", "deeper nesting")
            inside = self._mapping if letter == "{" else self._list
            return Node(self._source, line, inside(path, depth + 1))
        if letter == '"':
            text = self._string(path)
            return text_node(text, self._source, line, path, self._problems)
        return word_node(self._word(path), self._source, line, path, self._problems)

    def _list(self, path: Path, depth: int) -> list[Node]:
        items: list[Node] = []
        self._take("[", path)
        while self._more("]", path, first=not items):
            items.append(self._value((*path, len(items)), depth))
        return items

    def _mapping(self, path: Path, depth: int) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        self._take("{", path)
        while self._more("}", path, first=not entries):
            line = self._line
            key = self._key(path)
            node = self._value((*path, key), depth, line)
            if key in entries:
                twice = f"the key again (first on line {entries[key].line})"
                self._problems.append(node.problem((*path, key), "each key once", twice))
            entries.setdefault(key, node)
        return entries

    def _more(self, end: str, path: Path, *, first: bool) -> bool:
        """Whether another entry follows; takes the comma before it, or the end."""
        if self._peek() == end:
            self._take(end, path)
            return False
        if not first:
            self._take(",", path)
        return True

    def _key(self, path: Path) -> str:
        line = self._line
        if self._peek() != '"':
            self._stop(path, "a key in quotes")
        key = self._string(path)
        text_node(key, self._source, line, path, self._problems)
        self._take(":", path)
        return key

    def _string(self, path: Path) -> str:
        try:
            text, end = _STRINGS.raw_decode(self._text, self._at)
        except JSONDecodeError as error:
            self._skip_to(error.pos)
            self._stop(path, "well-formed JSON", error.msg)
        self._skip_to(end)
        return str(text)

    def _word(self, path: Path) -> str:
        match = _NUMBER.match(self._text, self._at) or _WORD.match(self._text, self._at)
        if match is None:
            self._stop(path, "a JSON value")
        self._skip_to(match.end())
        return match[0]

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, letter: str, path: Path) -> None:
        if self._peek() != letter:
            self._stop(path, f'"{letter}"')
        self._skip_to(self._at + 1)

    def _skip_to(self, position: int) -> None:
        space = _SPACE.match(self._text, position)
        end = space.end() if space else position
        self._line += self._text.count("\n", self._at, end)
        self._at = end

    def _stop(self, path: Path, expected: str, found: str | None = None) -> NoReturn:
        rest = self._text[self._at : self._at + 20].partition("\n")[0]
        what = found or (quoted(rest) if rest else "the end of the text")
        raise Malformed(Node(self._source, self._line, None).problem(path, expected, what))
