"""JSON values: what goes into a handler and what comes out of it."""

import math
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from acode.errors import InvalidTask

MAX_DEPTH: Final = 200
"""Values nested deeper than this are refused; a value that contains itself is one of them."""

_LEAST, _MOST = -(1 << 63), (1 << 64) - 1
_ATOMS: Final = frozenset({str, int, bool, type(None), float})


def plain(value: Any, where: str) -> Any:
    """A copy made of JSON values only; `InvalidTask` names the place of anything else."""
    return _plain(value, where, 0)


def plain_all(values: Iterable[Any]) -> tuple[Any, ...]:
    """The arguments of a task as JSON values."""
    return tuple([plain(value, f"argument {place}") for place, value in enumerate(values, 1)])


def _plain(value: Any, where: str, depth: int) -> Any:
    kind = type(value)
    if kind in _ATOMS:
        return _atom(value, where)
    if depth > MAX_DEPTH:
        raise _refused(where, "is nested too deeply, or contains itself")
    if kind is list or kind is tuple:
        return [_plain(each, f"{where}[{i}]", depth + 1) for i, each in enumerate(value)]
    if kind is dict:
        return {
            _key(key, where): _plain(v, f"{where}[{key!r}]", depth + 1) for key, v in value.items()
        }
    if isinstance(value, msgspec.Struct) or hasattr(value, "__dataclass_fields__"):
        return _plain(_fields(value, where), where, depth + 1)
    if isinstance(value, str | int | float | list | tuple | dict):  # enums and their like
        return _plain(_ordinary(value), where, depth)
    raise _refused(where, f"is a {kind.__name__}, which is no JSON value")


def _atom(value: Any, where: str) -> Any:
    if type(value) is float and not math.isfinite(value):
        raise _refused(where, f"is {value}, which JSON does not have")
    if type(value) is int and not _LEAST <= value <= _MOST:
        raise _refused(where, "is an integer of more than 64 bits")
    if type(value) is str and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _refused(where, "holds half a character (a lone surrogate)") from None
    return value


def _key(key: Any, where: str) -> str:
    if not isinstance(key, str):
        raise _refused(where, f"has the key {key!r}; keys of JSON objects are strings")
    return str(_atom(str(key), where))


def _fields(value: Any, where: str) -> Any:
    if isinstance(value, type):
        raise _refused(where, f"is the class {value.__name__}, not an instance of it")
    try:
        # By way of text, so that nothing but what JSON can say comes through.
        return msgspec.json.decode(msgspec.json.encode(value))
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise _refused(where, f"cannot be written as JSON: {error}") from error


def _ordinary(value: Any) -> Any:
    if isinstance(value, str):
        return str.__str__(value)
    kinds: tuple[type[Any], ...] = (int, float, list, tuple, dict)
    return next(kind(value) for kind in kinds if isinstance(value, kind))


def _refused(where: str, why: str) -> InvalidTask:
    return InvalidTask(f"{where} {why}", "pass JSON values, dataclasses or msgspec structs")
