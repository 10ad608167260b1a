"""Values as the server reads them: arrays in binary, where nothing has to be quoted."""

from collections.abc import Sequence
from itertools import chain, repeat
from struct import Struct, pack
from typing import Any

import psycopg

TEXT, BINARY = 0, 1
UNKNOWN, BOOL, INT8, TEXTS, INT8S = 0, 16, 20, 1009, 1016
_ELEMENT = {TEXTS: 25, INT8S: INT8}
_head = Struct(">iiIii").pack
_length = Struct(">i").pack
_number = Struct(">iq").pack
_NULL = _length(-1)
_EMPTY = pack(">iiI", 0, 0, _ELEMENT[TEXTS])

Dumped = tuple[list[bytes | None], list[int], list[int]]


def dumped(values: Sequence[Any]) -> Dumped:
    """The values, their types and their formats."""
    data: list[bytes | None] = []
    types: list[int] = []
    formats: list[int] = []
    for value in values:
        one, kind, form = _dump(value)
        data.append(one)
        types.append(kind)
        formats.append(form)
    return data, types, formats


def _dump(value: Any) -> tuple[bytes | None, int, int]:
    if value is None:
        return None, UNKNOWN, TEXT
    if isinstance(value, str):
        return _whole(value.encode()), UNKNOWN, TEXT
    if isinstance(value, bool):
        return b"t" if value else b"f", BOOL, TEXT
    if isinstance(value, int):
        return b"%d" % value, INT8, TEXT
    if isinstance(value, list):
        return _array(value)
    raise TypeError(f"no parameter of a statement: {type(value).__name__}")


def _whole(data: bytes) -> bytes:
    if 0 in data:  # libpq would end there without a word
        raise psycopg.DataError("PostgreSQL keeps no text with NUL bytes")
    return data


def _array(values: list[Any]) -> tuple[bytes, int, int]:
    """Of whole numbers or of texts, some of them missing."""
    first = next((value for value in values if value is not None), None)
    if first is None:
        # Beside other arrays, one that is too short goes on with NULL.
        return _EMPTY, TEXTS, BINARY
    kind = TEXTS if isinstance(first, str) else INT8S
    head = _head(1, 1, _ELEMENT[kind], len(values), 1)
    return head + (_texts(values) if kind == TEXTS else _numbers(values)), kind, BINARY


def _texts(values: list[Any]) -> bytes:
    if None in values:
        return b"".join([_NULL if value is None else _text(value) for value in values])
    return b"".join([_length(len(data)) + data for data in map(str.encode, values)])


def _text(value: str) -> bytes:
    data = value.encode()
    return _length(len(data)) + data


def _numbers(values: list[int | None]) -> bytes:
    if None in values:
        return b"".join(_NULL if value is None else _number(8, value) for value in values)
    return pack(f">{'iq' * len(values)}", *chain.from_iterable(zip(repeat(8), values)))
