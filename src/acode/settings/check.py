"""A settings file and the variables that override it, checked against the tree."""

from collections.abc import Mapping

from msgspec import structs, to_builtins

from acode.errors import ConfigError
from acode.reading.document import decode
from acode.reading.node import Node, node_of
from acode.reading.problem import Malformed, Problem, listing
from acode.reading.shape import conform
from acode.settings.names import find
from acode.settings.overrides import override
from acode.settings.rules import conflicts
from acode.settings.tree import CLAUDE_CODE, FixedApi, Settings


def check(data: bytes, source: str, variables: Mapping[str, str]) -> Settings:
    """The settings, or `ConfigError` with everything that is wrong."""
    problems: list[Problem] = []
    root = _with_known_agents(_read(data, source, problems))
    root = override(root, variables, problems)
    settings = conform(root, Settings, problems) or Settings()
    problems += conflicts(settings, root, problems)
    if problems:
        raise ConfigError(listing(problems))
    if find(root, ("api", "port")) is not None:
        settings = structs.replace(settings, api=FixedApi(**structs.asdict(settings.api)))
    return settings


def _read(data: bytes, source: str, problems: list[Problem]) -> Node:
    if not data:
        return Node(source, 1, None)
    from acode.reading.yamltext import read_yaml

    try:
        return read_yaml(decode(data, source), source, problems)
    except Malformed as stop:
        problems.append(stop.problem)
        return Node(source, 1, None)


def _with_known_agents(root: Node) -> Node:
    """An agent that comes with acode stays, and is changed only where the file says so."""
    if not isinstance(root.value, dict | None):
        return root
    sections = root.value or {}
    agents = sections.get("agents", Node(root.source, root.line, None))
    known = node_of({"claude-code": to_builtins(CLAUDE_CODE)}, agents)
    return structs.replace(root, value={**sections, "agents": _merged(known, agents)})


def _merged(base: Node, over: Node) -> Node:
    if over.value is None:
        return base
    if not isinstance(base.value, dict) or not isinstance(over.value, dict):
        return over
    changed = {
        key: _merged(base.value[key], node) if key in base.value else node
        for key, node in over.value.items()
    }
    return structs.replace(over, value={**base.value, **changed})
