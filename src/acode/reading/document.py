"""A file's bytes to nodes: YAML, JSON, JSON lines or plain lines of text.

The name's ending decides: `.yml` and `.yaml`, `.json`, `.jsonl` and `.ndjson`. Otherwise (standard
input, other endings) the first line that is neither blank nor a comment does:

- it begins as JSON does, with `{` or `[` and then a quote or another bracket: JSON, or JSON lines
  if it is a whole value and other lines follow;
- it is `---`, or begins with `- ` or with `word:`: YAML;
- anything else: plain text, one command to a line.
"""

import os.path
import re
from collections.abc import Iterator

from acode.reading.node import Node
from acode.reading.problem import Malformed, Problem
from acode.reading.scalar import text_node

MAX_BYTES = 1024 * 1024

_FORMATS = {
    ".yml": "yaml",
    ".yaml": "yaml",
    ".json": "json",
    ".jsonl": "json lines",
    ".ndjson": "json lines",
}
_LIKE_JSON = re.compile(r"[{\[]\s*([\"{\[\]}]|$)")
_LIKE_YAML = re.compile(r"(---|-|[A-Za-z_]\w*:)(\s|$)")


def read(data: bytes, source: str, problems: list[Problem]) -> Node | None:
    """What the bytes say; `None` if they cannot be read, and `problems` tells why."""
    try:
        text = decode(data, source)
        return _read(text, source, problems)
    except Malformed as stop:
        problems.append(stop.problem)
        return None


def decode(data: bytes, source: str) -> str:
    """The bytes as text, if they are text of an allowed size."""
    if len(data) > MAX_BYTES:
        raise _unreadable(source, "more", f"at most {MAX_BYTES:,} bytes")
    if b"\0" in data:
        raise _unreadable(source, "binary data", "text in UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        found = f"the byte 0x{data[error.start]:02x}"
        raise _unreadable(source, found, "text in UTF-8", line) from error


def _unreadable(source: str, found: str, expected: str, line: int = 0) -> Malformed:
    return Malformed(Problem(source, line, "", found, expected))


def _read(text: str, source: str, problems: list[Problem]) -> Node:
    match _format(text, source):
        case "yaml":
            from acode.reading.yamltext import read_yaml

            return read_yaml(text, source, problems)
        case "json":
            from acode.reading.jsontext import read_json

            return read_json(text, source, problems)
        case "json lines":
            from acode.reading.jsontext import read_json_lines

            return read_json_lines(text, source, problems)
        case _:
            return _plain_lines(text, source, problems)


def _format(text: str, source: str) -> str:
    ending = os.path.splitext(source)[1].lower()
    return _FORMATS.get(ending) or _sniff(text)


def _sniff(text: str) -> str:
    lines = _lines(text)
    _, first = next(lines, (0, ""))
    if _LIKE_JSON.match(first):
        return "json lines" if any(lines) and _is_json(first) else "json"
    return "yaml" if _LIKE_YAML.match(first) else "text"


def _is_json(line: str) -> bool:
    from acode.reading.jsontext import read_json

    try:
        read_json(line, "", [])
    except Malformed:
        return False
    return True


def _plain_lines(text: str, source: str, problems: list[Problem]) -> Node:
    lines = [text_node(line, source, number, (), problems) for number, line in _lines(text)]
    return Node(source, 1, lines)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are neither blank nor comments, with their numbers."""
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            yield number, stripped
