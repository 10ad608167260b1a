"""Task files and flags to drafts: checked once, completely, with every problem reported."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any

from msgspec import Meta, Struct, structs

from acode.errors import BlockedCommand, InvalidTask, UsageError
from acode.ids import is_prefix, normalise
from acode.model.priority import Priority
from acode.model.task import Mode, TaskLimits, TaskSpec, WorkspaceKind
from acode.policy.commands import Guard
from acode.policy.limits import Ceilings
from acode.policy.revisions import is_revision
from acode.reading.cycle import cycles
from acode.reading.inside import glob_leaves, leaves
from acode.reading.node import Node
from acode.reading.problem import SHOWN, Path, Problem, listing, printable, quoted
from acode.reading.scalar import text_node, word_node
from acode.reading.shape import conform, given
from acode.spec.draft import Draft

TYPES = ("shell", "script", "claude-code", "python")
MAX_TASKS = 10_000

_TEN_YEARS = 10 * 365 * 24 * 3600
_LONGEST_CYCLE = 20
_WITHOUT_BASE = (WorkspaceKind.SCRATCH, WorkspaceKind.PROJECT)
_FUNCTION = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")

_Command = Annotated[str, Meta(pattern=r"\S", extra={"expected": "a command that is not empty"})]
_Line = Annotated[
    str,
    Meta(
        pattern=r"\A[^\r\n]{1,200}\Z",
        extra={"expected": "one line of at most 200 characters"},
    ),
]
_Revision = Annotated[
    str,
    Meta(
        pattern=r"\A[^-\s][^\r\n]{0,199}\Z",
        extra={"expected": "a branch, tag or commit"},
    ),
]
_Variable = Annotated[
    str,
    Meta(
        pattern=r"\A[A-Za-z_][A-Za-z0-9_]*\Z",
        extra={"expected": "the name of a variable: letters, digits and _"},
    ),
]
_FilePath = Annotated[str, Meta(min_length=1, max_length=4096)]
_Seconds = Annotated[float, Meta(gt=0, le=_TEN_YEARS)]
_Megabytes = Annotated[int, Meta(ge=1, le=1_000_000_000)]
_Percent = Annotated[float, Meta(gt=0, le=1_000_000)]
_Retries = Annotated[int, Meta(ge=0, le=100)]


def _also(name: str) -> Meta:
    return Meta(extra={"aliases": (name,)})


class _Limits(Struct, frozen=True, rename="camel"):
    memory_mb: _Megabytes | None = None
    cpu_percent: _Percent | None = None
    disk_mb: _Megabytes | None = None


class _Entry(Struct, frozen=True, kw_only=True, rename="camel"):
    """A task as a file gives it: the fields of `TaskSpec` with their bounds, and a name."""

    name: _Line | None = None
    command: _Command = ""
    args: tuple[str, ...] = ()
    type: str = "shell"
    title: _Line | None = None
    priority: Priority = Priority.MEDIUM
    workstream_id: Annotated[_Line | None, _also("workstream")] = None
    env: dict[_Variable, str] = {}
    timeout_seconds: Annotated[_Seconds | None, _also("timeout")] = None
    retry_limit: Annotated[_Retries | None, _also("retries")] = None
    dependencies: Annotated[tuple[_Line, ...], _also("after")] = ()
    mode: Mode | None = None
    workspace: WorkspaceKind | None = None
    base: _Revision | None = None
    cwd: _FilePath | None = None
    artifacts: Annotated[tuple[_FilePath, ...], Meta(max_length=1000)] = ()
    key: _Line | None = None
    delay_seconds: Annotated[Annotated[float, Meta(ge=0, le=_TEN_YEARS)], _also("delay")] = 0.0
    limits: _Limits = _Limits()
    metadata: dict[str, Any] = {}


class _Item(Struct, frozen=True):
    """A task on its way: where it stands and what it says."""

    node: Node
    path: Path
    entry: _Entry

    def given(self, field: str) -> tuple[Path, Node] | None:
        """Where a field is written, if it is."""
        return given(self.node, _Entry, field, self.path)

    def problem(self, field: str, expected: str, found: str | None = None) -> Problem:
        """Say what is wrong with a field; one that is not written stands where its task does."""
        path, node = self.given(field) or ((*self.path, field), self.node)
        return node.problem(path, expected, found)


def read_batch(
    data: bytes,
    source: str,
    *,
    root: str,
    types: Collection[str],
    guard: Guard = Guard(),  # noqa: B008 -- it never changes
    ceilings: Ceilings | None = None,
) -> list[Draft]:
    """The tasks of a file. `types` are the agents that are configured besides the built-in types.

    A file holds one task, a list, a mapping with `tasks`, JSON lines, or one command to a line.
    """
    from acode.reading.document import read

    problems: list[Problem] = []
    document = read(data, source, problems)
    items = _items(document, problems) if document else []
    for item in items:
        problems += _check(item, root, types)
        problems += _check_limits(item, ceilings)
    problems += _check_names(items)
    blocked = [problem for item in items for problem in _check_command(item, guard)]
    if blocked:
        raise BlockedCommand(listing([*problems, *blocked]))
    if problems:
        raise InvalidTask(listing(problems))
    return [
        structs.replace(_draft(item.entry), unknown=item.problem("dependencies", _NEED))
        if item.entry.dependencies
        else _draft(item.entry)
        for item in items
    ]


def _items(document: Node, problems: list[Problem]) -> list[_Item]:
    nodes = _task_nodes(document, problems)
    if not nodes:
        problems.append(document.problem((), "at least one task", "no task"))
    if len(nodes) > MAX_TASKS:
        found = f"{len(nodes):,} tasks"
        problems.append(document.problem((), f"at most {MAX_TASKS:,} tasks", found))
        return []
    items = (_item(node, path, problems) for path, node in nodes)
    return [item for item in items if item is not None]


def _task_nodes(document: Node, problems: list[Problem]) -> list[tuple[Path, Node]]:
    """The tasks of a document, each with the path to it."""
    entries = document.value if isinstance(document.value, dict) else {}
    if "tasks" not in entries:
        return [] if document.value is None else _listed((), document)
    others = [key for key in entries if key != "tasks"]
    problems += [entries[key].problem((key,), "only tasks", "another key") for key in others]
    return _listed(("tasks",), entries["tasks"])


def _listed(path: Path, node: Node) -> list[tuple[Path, Node]]:
    if not isinstance(node.value, list):
        return [(path, node)]
    return [((*path, position), task) for position, task in enumerate(node.value)]


def _item(node: Node, path: Path, problems: list[Problem]) -> _Item | None:
    if isinstance(node.value, list | None):
        problems.append(node.problem(path, "a task: a mapping, or a command"))
        return None
    if not isinstance(node.value, dict):
        node = structs.replace(node, value={"command": node})
    entry = conform(node, _Entry, problems, path)
    return None if entry is None else _Item(node, path, entry)


def _check(item: _Item, root: str, types: Collection[str]) -> Iterator[Problem]:
    """What the shape of a task does not say."""
    entry = item.entry
    if item.given("command") is None:
        yield item.problem("command", "a command", "nothing")
    if entry.type not in TYPES and entry.type not in types:
        allowed = [*TYPES, *sorted(set(types) - set(TYPES))]
        yield item.problem("type", f"one of {', '.join(allowed)}")
    if entry.type == "script" and leaves(root, entry.command):
        yield item.problem("command", "a script inside the project")
    if entry.type == "python" and not _FUNCTION.fullmatch(entry.command):
        yield item.problem("command", "a function as module:function")
    if entry.base is not None and not is_revision(entry.base):
        yield item.problem("base", "a branch, tag or commit")
    if entry.cwd is not None and leaves(root, entry.cwd):
        yield item.problem("cwd", "a directory inside the project")
    if entry.base is not None and entry.workspace in _WITHOUT_BASE:
        yield item.problem("base", "nothing: only a worktree has a base")
    for pattern in entry.artifacts:
        if glob_leaves(root, pattern):
            yield item.problem("artifacts", "files inside the project", quoted(pattern))


def _check_command(item: _Item, guard: Guard) -> Iterator[Problem]:
    found = guard.refusal(item.entry)
    if found is not None:
        yield item.problem("command", f"no command that would {found.would}", quoted(found.command))


def _check_limits(item: _Item, ceilings: Ceilings | None) -> Iterator[Problem]:
    """More than the pool can give would never be given."""
    if ceilings is None or (place := item.given("limits")) is None:
        return
    path, node = place
    for field, (most, setting) in ceilings._asdict().items():
        asked, where = getattr(item.entry.limits, field), given(node, _Limits, field, path)
        if asked is not None and asked > most and where is not None:
            yield where[1].problem(where[0], f"at most {most:,.10g} ({setting})")


def _check_names(items: Sequence[_Item]) -> Iterator[Problem]:
    """What tasks say of each other."""
    named: dict[str, _Item] = {}
    for item in items:
        name = item.entry.name
        if name is not None and named.setdefault(name, item) is not item:
            found = f"{quoted(name)} again (first on line {named[name].node.line})"
            yield item.problem("name", "a name of its own", found)
    for item in items:
        yield from _check_dependencies(item, named)
    circles = cycles({name: item.entry.dependencies for name, item in named.items()})
    for way in islice(circles, SHOWN):
        found = f"the cycle {_drawn(way)}"
        yield named[way[0]].problem("dependencies", "tasks that do not wait for each other", found)


_NEED = "the name of a task in this file or the id of a task"


def _check_dependencies(item: _Item, named: Collection[str]) -> Iterator[Problem]:
    for name in item.entry.dependencies:
        if name not in named and not _can_be_id(name):
            yield item.problem("dependencies", _NEED, quoted(name))


def _can_be_id(text: str) -> bool:
    return is_prefix(normalise(text))


def _drawn(way: Sequence[str]) -> str:
    names = [printable(name) for name in way]
    if len(names) > _LONGEST_CYCLE:
        names[_LONGEST_CYCLE - 1 : -1] = ["…"]
    return " -> ".join(names)


_GIVEN = frozenset(_Entry.__struct_fields__)


def _draft(entry: _Entry) -> Draft:
    values = {name: getattr(entry, name) for name in TaskSpec.__struct_fields__ if name in _GIVEN}
    values |= {"limits": TaskLimits(**structs.asdict(entry.limits)), "dependencies": ()}
    return Draft(entry.name, TaskSpec(**values), tuple(dict.fromkeys(entry.dependencies)))


_FLAGS = {
    "command": "command",
    "args": "args",
    "title": "title",
    "type": "type",
    "priority": "priority",
    "workstream": "workstreamId",
    "timeout": "timeoutSeconds",
    "retries": "retryLimit",
    "env": "env",
    "after": "dependencies",
    "mode": "mode",
    "workspace": "workspace",
    "base": "base",
    "cwd": "cwd",
    "artifact": "artifacts",
    "key": "key",
    "delay": "delaySeconds",
    "meta": "metadata",
}
_LIMIT_FLAGS = {"memory_mb": "memoryMb", "cpu_percent": "cpuPercent", "disk_mb": "diskMb"}
_NUMBERS = {"timeout", "retries", "delay", *_LIMIT_FLAGS}
_PAIRS = {"env", "meta"}


def draft_from_flags(
    values: Mapping[str, Any],
    *,
    root: str,
    types: Collection[str],
    guard: Guard = Guard(),  # noqa: B008 -- it never changes
    ceilings: Ceilings | None = None,
) -> Draft:
    """The one task of a command line; other keys and values of `None` count as not given.

    Keys are the flags' names with `_` for `-`, and `command` and `args` for what follows `--`.
    Numbers may be text; `env` and `meta` are lists of NAME=VALUE.
    """
    problems: list[Problem] = []
    item = _item(Node("COMMAND", 0, _flag_nodes(values, problems)), (), problems)
    if item is not None:
        problems += _check(item, root, types)
        problems += _check_limits(item, ceilings)
        problems += [
            item.problem("dependencies", "the id of a task", quoted(text))
            for text in item.entry.dependencies
            if not _can_be_id(text)
        ]
    if item is None or problems:
        raise UsageError(_without_fields(problems))
    if blocked := list(_check_command(item, guard)):
        raise BlockedCommand(_without_fields(blocked))
    return _draft(item.entry)


def _without_fields(problems: Sequence[Problem]) -> str:
    """A flag is its own field."""
    return listing([structs.replace(each, field="") for each in problems])


def _flag_nodes(values: Mapping[str, Any], problems: list[Problem]) -> dict[str, Node]:
    nodes = _group(_FLAGS, values, problems)
    limits: Any = _group(_LIMIT_FLAGS, values, problems)
    return nodes | {"limits": Node("COMMAND", 0, limits)}


def _group(
    names: Mapping[str, str], values: Mapping[str, Any], problems: list[Problem]
) -> dict[str, Node]:
    return {
        wire: _flag_node(flag, values[flag], problems)
        for flag, wire in names.items()
        if values.get(flag) is not None
    }


def _flag_node(flag: str, value: Any, problems: list[Problem]) -> Node:
    source = "COMMAND" if flag in ("command", "args") else f"--{flag.replace('_', '-')}"
    if flag in _NUMBERS:
        return word_node(str(value), source, 0, (), problems)
    if flag in _PAIRS:
        return Node(source, 0, _pairs(value, source, problems))
    if isinstance(value, str):
        return text_node(value, source, 0, (), problems)
    return Node(source, 0, [text_node(each, source, 0, (), problems) for each in value])


def _pairs(values: Sequence[str], source: str, problems: list[Problem]) -> dict[str, Node]:
    nodes: dict[str, Node] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not name:
            problems.append(Problem(source, 0, "", quoted(text), "NAME=VALUE"))
        text_node(name, source, 0, (), problems)
        nodes[name] = text_node(value, source, 0, (), problems)
    return nodes
