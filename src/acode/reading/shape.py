"""Nodes to structs: checks a document against a declared type and collects every problem.

The type says it all: camelCase wire names, bounds (`msgspec.Meta`), enums, nested structs.
`Meta(extra=…)` adds `aliases`, other names of a field, and `expected`, words for a pattern.
Some kindness is the same everywhere: a field's snake_case name works too; a number where text
is expected is taken as it was written; one text where a list of texts is expected is a list
of one; nothing after the name of a list or a section counts as not given.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar, cast

from msgspec import UNSET, inspect

from acode.reading.node import Node, plain
from acode.reading.problem import SHOWN, Path, Problem, closest

T = TypeVar("T")


def conform(node: Node, kind: type[T], problems: list[Problem], path: Path = ()) -> T | None:
    """The node as a value of this type. A part that is wrong is a problem and left out."""
    value = _check(node, struct_info(kind), path, problems)
    return None if value is UNSET else value


def struct_info(kind: type) -> inspect.StructType:
    """What msgspec knows of a struct."""
    return cast("inspect.StructType", _info(kind))


_info = cache(inspect.type_info)


def field_names(info: inspect.StructType) -> dict[str, inspect.Field]:
    """The fields of a struct by each name that a document may use."""
    names = _NAMES.get(info.cls)
    if names is None:
        names = _NAMES[info.cls] = _collect_names(info)
    return names


_NAMES: dict[type, dict[str, inspect.Field]] = {}


def _collect_names(info: inspect.StructType) -> dict[str, inspect.Field]:
    names = {field.encode_name: field for field in info.fields}
    for field in info.fields:
        names.setdefault(field.name.rstrip("_"), field)
        for alias in _extra(field.type).get("aliases", ()):
            names[alias] = field
    return names


def given(node: Node, kind: type, field: str, path: Path) -> tuple[Path, Node] | None:
    """Where a mapping that is such a struct gives this field, under whatever name."""
    names = field_names(struct_info(kind))
    entries = node.value if isinstance(node.value, dict) else {}
    fitting = (key for key in entries if key in names and names[key].name == field)
    key = next(fitting, None)
    return None if key is None else ((*path, key), entries[key])


def bare(info: inspect.Type) -> inspect.Type:
    """The type itself, without what `Meta` adds to it."""
    return info.type if isinstance(info, inspect.Metadata) else info


def _extra(info: inspect.Type) -> Mapping[str, Any]:
    return (info.extra or {}) if isinstance(info, inspect.Metadata) else {}


def _check(node: Node, info: inspect.Type, path: Path, problems: list[Problem]) -> Any:
    return _CHECKS[type(info)](node, info, path, problems)


def _struct(node: Node, info: inspect.StructType, path: Path, problems: list[Problem]) -> Any:
    entries = {} if node.value is None else node.value
    if not isinstance(entries, dict):
        return _refuse(node, info, path, problems)
    present = _fields(entries, info, path, problems)
    values = {
        name: _check(entries[key], field.type, (*path, key), problems)
        for name, (key, field) in present.items()
    }
    right = {name: value for name, value in values.items() if value is not UNSET}
    missing = [each for each in info.fields if each.required and each.name not in present]
    problems.extend(
        node.problem((*path, each.encode_name), expected(each.type), "nothing") for each in missing
    )
    return UNSET if any(_is_lacking(each, right) for each in info.fields) else info.cls(**right)


def _is_lacking(field: inspect.Field, values: dict[str, Any]) -> bool:
    return field.required and field.name not in values


def _fields(
    entries: dict[str, Node], info: inspect.StructType, path: Path, problems: list[Problem]
) -> dict[str, tuple[str, inspect.Field]]:
    """The fields that are given, each with the key that gives it."""
    names = field_names(info)
    present: dict[str, tuple[str, inspect.Field]] = {}
    for key, child in entries.items():
        field = names.get(key)
        if field is None:
            suggest = len(problems) < SHOWN
            problems.append(unknown_key(child, (*path, key), info, suggest=suggest))
        elif field.name in present:
            both = f"{present[field.name][0]} as well, which means the same"
            problems.append(child.problem((*path, key), "one of them", both))
        elif not _is_left_open(child, field):
            present[field.name] = key, field
    return present


def _is_left_open(node: Node, field: inspect.Field) -> bool:
    is_container = isinstance(bare(field.type), _CONTAINERS)
    return node.value is None and not field.required and is_container


_CONTAINERS = (inspect.StructType, inspect.VarTupleType, inspect.DictType)


def unknown_key(node: Node, path: Path, info: inspect.StructType, *, suggest: bool) -> Problem:
    """Say that no field has this name, and which name was probably meant."""
    meant = closest(str(path[-1]), field_names(info)) if suggest else None
    hint = f" (did you mean {meant}?)" if meant else ""
    allowed = _one_of([field.encode_name for field in info.fields])
    return node.problem(path, allowed + hint, "an unknown key")


def _tuple(node: Node, info: inspect.VarTupleType, path: Path, problems: list[Problem]) -> Any:
    items = node.value
    if not isinstance(items, list):
        if items is None or isinstance(items, dict) or not _takes_text(info.item_type):
            return _refuse(node, info, path, problems)
        items = [node]
    checked = (
        _check(item, info.item_type, (*path, position), problems)
        for position, item in enumerate(items)
    )
    return _sized(node, info, tuple(item for item in checked if item is not UNSET), path, problems)


def _takes_text(info: inspect.Type) -> bool:
    return isinstance(bare(info), inspect.StrType)


def _dict(node: Node, info: inspect.DictType, path: Path, problems: list[Problem]) -> Any:
    if not isinstance(node.value, dict):
        return _refuse(node, info, path, problems)
    values: dict[str, Any] = {}
    for key, child in node.value.items():
        name = Node(child.source, child.line, key)
        key_value = _check(name, info.key_type, (*path, key), problems)
        value = _check(child, info.value_type, (*path, key), problems)
        if key_value is not UNSET and value is not UNSET:
            values[key_value] = value
    return _sized(node, info, values, path, problems)


def _sized(
    node: Node,
    info: inspect.VarTupleType | inspect.DictType,
    value: Any,
    path: Path,
    problems: list[Problem],
) -> Any:
    found = f"{len(value):,} entries"
    if info.min_length is not None and len(value) < info.min_length:
        problems.append(node.problem(path, f"at least {info.min_length:,}", found))
        return UNSET
    if info.max_length is not None and len(value) > info.max_length:
        problems.append(node.problem(path, f"at most {info.max_length:,}", found))
        return UNSET
    return value


def _union(node: Node, info: inspect.UnionType, path: Path, problems: list[Problem]) -> Any:
    if node.value is None:
        return None
    (kind,) = (each for each in info.types if not isinstance(each, inspect.NoneType))
    return _check(node, kind, path, problems)


def _enum(node: Node, info: inspect.EnumType, path: Path, problems: list[Problem]) -> Any:
    for member in info.cls:
        if member.value == node.value:
            return member
    return _refuse(node, info, path, problems)


def _literal(node: Node, info: inspect.LiteralType, path: Path, problems: list[Problem]) -> Any:
    if isinstance(node.value, str) and node.value in info.values:
        return node.value
    return _refuse(node, info, path, problems)


def _bool(node: Node, info: inspect.BoolType, path: Path, problems: list[Problem]) -> Any:
    if isinstance(node.value, bool):
        return node.value
    return _refuse(node, info, path, problems)


def _int(node: Node, info: inspect.IntType, path: Path, problems: list[Problem]) -> Any:
    value = node.value
    if isinstance(value, int) and not isinstance(value, bool) and _within(value, info):
        return value
    return _refuse(node, info, path, problems)


def _float(node: Node, info: inspect.FloatType, path: Path, problems: list[Problem]) -> Any:
    value = node.value
    if isinstance(value, int | float) and not isinstance(value, bool) and _within(value, info):
        return float(value)
    return _refuse(node, info, path, problems)


def _within(value: float, info: inspect.IntType | inspect.FloatType) -> bool:
    return (
        (info.gt is None or value > info.gt)
        and (info.ge is None or value >= info.ge)
        and (info.lt is None or value < info.lt)
        and (info.le is None or value <= info.le)
    )


def _str(node: Node, info: inspect.StrType, path: Path, problems: list[Problem]) -> Any:
    text = node.value if isinstance(node.value, str) else node.text
    is_text = node.value is not None and not isinstance(node.value, list | dict)
    if is_text and _fits(text, info):
        return text
    return _refuse(node, info, path, problems)


def _fits(text: str, info: inspect.StrType) -> bool:
    if info.pattern is not None and not re.search(info.pattern, text):
        return False
    return (info.min_length or 0) <= len(text) and (
        info.max_length is None or len(text) <= info.max_length
    )


def _any(node: Node, info: inspect.AnyType, path: Path, problems: list[Problem]) -> Any:  # noqa: ARG001
    return plain(node)


def _metadata(node: Node, info: inspect.Metadata, path: Path, problems: list[Problem]) -> Any:
    words = _extra(info).get("expected")
    if words is None:
        return _check(node, info.type, path, problems)
    own: list[Problem] = []
    value = _check(node, info.type, path, own)
    if own:
        problems.append(node.problem(path, words))
    return value


def _refuse(node: Node, info: inspect.Type, path: Path, problems: list[Problem]) -> Any:
    problems.append(node.problem(path, expected(info)))
    return UNSET


def expected(info: inspect.Type) -> str:
    """What is allowed, in words."""
    match info:
        case inspect.Metadata():
            return str(_extra(info).get("expected") or expected(info.type))
        case inspect.UnionType():
            return " or ".join(expected(each) for each in info.types)
        case inspect.EnumType():
            return _one_of([str(member.value) for member in info.cls])
        case inspect.LiteralType():
            return _one_of([str(value) for value in info.values])
        case inspect.IntType() | inspect.FloatType():
            return _number(info)
        case inspect.StrType():
            return _text(info)
        case _:
            return _WORDS[type(info)]


def _one_of(words: list[str]) -> str:
    return f"one of {', '.join(words)}" if len(words) > 1 else words[0]


def _number(info: inspect.IntType | inspect.FloatType) -> str:
    kind = "a whole number" if isinstance(info, inspect.IntType) else "a number"
    if info.ge is not None and info.le is not None:
        return f"{kind} from {info.ge:,} to {info.le:,}"
    sides = (
        (info.gt, "above"),
        (info.ge, "of at least"),
        (info.lt, "below"),
        (info.le, "of at most"),
    )
    bounds = [f"{word} {bound:,}" for bound, word in sides if bound is not None]
    return f"{kind} {' and '.join(bounds)}".strip()


def _text(info: inspect.StrType) -> str:
    if info.max_length is not None:
        return f"text of {info.min_length or 0} to {info.max_length} characters"
    return "text that is not empty" if info.min_length else "text"


_WORDS: dict[type, str] = {
    inspect.AnyType: "a value",
    inspect.BoolType: "true or false",
    inspect.DictType: "a mapping",
    inspect.NoneType: "null",
    inspect.StructType: "a mapping",
    inspect.VarTupleType: "a list",
}

_CHECKS: dict[type, Callable[[Node, Any, Path, list[Problem]], Any]] = {
    inspect.AnyType: _any,
    inspect.BoolType: _bool,
    inspect.DictType: _dict,
    inspect.EnumType: _enum,
    inspect.FloatType: _float,
    inspect.IntType: _int,
    inspect.LiteralType: _literal,
    inspect.Metadata: _metadata,
    inspect.StrType: _str,
    inspect.StructType: _struct,
    inspect.UnionType: _union,
    inspect.VarTupleType: _tuple,
}
