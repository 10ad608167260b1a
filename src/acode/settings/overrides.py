"""`ACODE_<SECTION>__<KEY>` variables: each is put into the tree of nodes as if the file said it."""

from collections.abc import Iterable, Mapping

from msgspec import inspect, structs

from acode.reading.node import Node
from acode.reading.problem import Malformed, Path, Problem, field_name
from acode.reading.scalar import word_node
from acode.reading.shape import bare, field_names, struct_info, unknown_key
from acode.settings.names import find, squash
from acode.settings.tree import Settings

_PREFIX = "ACODE_"


def override(root: Node, variables: Mapping[str, str], problems: list[Problem]) -> Node:
    """The tree with every variable in its place; a whole section before the keys in it."""
    seen: dict[Path, str] = {}
    for name in sorted(variables, key=lambda each: (each.count("__"), each)):
        path = _path(root, name, problems)
        if path is None:
            continue
        node = _value(variables[name], name, path, problems)
        if path in seen:
            found = f"{seen[path]} as well, which means the same"
            problems.append(node.problem(path, "one of them", found))
        seen[path] = name
        root = _put(root, path, node)
    return root


def _path(root: Node, name: str, problems: list[Problem]) -> tuple[str, ...] | None:
    """The keys that a variable's name means."""
    info: inspect.Type = struct_info(Settings)
    path: tuple[str, ...] = ()
    for word in name.removeprefix(_PREFIX).split("__"):
        step = _step(_entries(root, path), info, word)
        if step is None:
            problems.append(_unknown(name, (*path, word.lower()), info))
            return None
        key, info = step
        path = (*path, key)
    return path


def _step(
    entries: Mapping[str, Node], info: inspect.Type, word: str
) -> tuple[str, inspect.Type] | None:
    """The key that a word means here, spelled as the file spells it, and the type below it."""
    if isinstance(info, inspect.DictType):
        return _like(word, entries) or word, bare(info.value_type)
    if not isinstance(info, inspect.StructType):
        return None
    names = field_names(info)
    name = _like(word, names)
    if name is None:
        return None
    spelled = (key for key in entries if names.get(key) is names[name])
    return next(spelled, names[name].encode_name), bare(names[name].type)


def _like(word: str, names: Iterable[str]) -> str | None:
    return next((name for name in names if squash(name) == squash(word)), None)


def _unknown(name: str, path: Path, info: inspect.Type) -> Problem:
    node = Node(name, 0, None)
    if isinstance(info, inspect.StructType):
        return unknown_key(node, path, info, suggest=True)
    return node.problem(path, f"nothing below {field_name(path[:-1])}", "an unknown key")


def _entries(root: Node, path: Path) -> dict[str, Node]:
    node = find(root, path)
    return node.value if node is not None and isinstance(node.value, dict) else {}


def _value(text: str, name: str, path: Path, problems: list[Problem]) -> Node:
    """What a variable says: a word as in YAML; brackets, braces or quotes in full YAML."""
    if not text.startswith(("[", "{", '"', "'")):
        return word_node(text, name, 0, path, problems)
    from acode.reading.yamltext import read_yaml

    own: list[Problem] = []
    try:
        node = _without_lines(read_yaml(text, name, own))
    except Malformed as stop:
        own.append(stop.problem)
        node = Node(name, 0, None)
    problems += [structs.replace(each, line=0) for each in own]
    return node


def _without_lines(node: Node) -> Node:
    value = node.value
    if isinstance(value, list):
        value = [_without_lines(child) for child in value]
    elif isinstance(value, dict):
        value = {key: _without_lines(child) for key, child in value.items()}
    return structs.replace(node, line=0, value=value)


def _put(node: Node, path: Path, leaf: Node) -> Node:
    if not path:
        return leaf
    entries = {} if node.value is None else node.value
    if not isinstance(entries, dict):
        return node  # wrong in the file already, and reported there
    key = str(path[0])
    child = entries.get(key, Node(leaf.source, leaf.line, None))
    return structs.replace(node, value={**entries, key: _put(child, path[1:], leaf)})
