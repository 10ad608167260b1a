"""Words to values: what a word without quotes means, as in the core schema of YAML 1.2.

Only true and false are booleans; `on`, `off`, `yes` and `no` are text. So is everything else
that is neither a number nor null: dates, `1_000`, `0x10`, `12:30`.
"""

import re
from math import isfinite

from acode.reading.node import Node, Scalar, unfit
from acode.reading.problem import Path, Problem

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WHOLE = re.compile(r"[-+]?[0-9]+")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_MOST_DIGITS = 400
_LARGEST = 2**63 - 1


def scalar(word: str) -> Scalar:
    """What a word means. Raises `OverflowError` for a number that no machine word holds."""
    if word in _WORDS:
        return _WORDS[word]
    if _WHOLE.fullmatch(word):
        return _whole(word)
    if _NUMBER.fullmatch(word):
        return _real(word)
    return word


def _whole(word: str) -> int:
    if len(word) > _MOST_DIGITS or not -_LARGEST <= int(word) <= _LARGEST:
        raise OverflowError
    return int(word)


def _real(word: str) -> float:
    value = float(word)
    if not isfinite(value):
        raise OverflowError
    return value


def word_node(word: str, source: str, line: int, path: Path, problems: list[Problem]) -> Node:
    """The node of a word without quotes."""
    try:
        value = scalar(word)
    except OverflowError:
        node = Node(source, line, word)
        problems.append(node.problem(path, "a number of at most 64 bits"))
        return node
    if isinstance(value, str):
        return text_node(value, source, line, path, problems)
    return Node(source, line, value, word)


def text_node(text: str, source: str, line: int, path: Path, problems: list[Problem]) -> Node:
    """The node of a text; one that nothing could carry is a problem and does not get further."""
    found = unfit(text)
    if found is None:
        return Node(source, line, text)
    node = Node(source, line, "\ufffd")
    problems.append(node.problem(path, "text", found))
    return node
