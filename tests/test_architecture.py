"""The tree is the architecture; this guards it. The pictures in ARCHITECTURE.md are tested too."""

import ast
import re
import subprocess
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path

import pytest

from acode.model.state import MOVES, WORKER_MOVES
from acode.policy.breaker import CIRCUIT_MOVES

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "acode"
DRAWINGS = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")

MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 60

# Who may import whom. A room is a package or a module directly under src/acode;
# "acode" is the package itself, which holds the version and what users import.
# Rooms that are planned have their row already.
BASICS = {"model", "errors", "clock", "ids"}
INNER = {"policy", "store", "runner", "workspace", "observe", "sockets", *BASICS}
READERS = {"reading", "settings", "spec", "project", "keys", "hosts"}
TELLERS = {"views", "human", "why", "peers"}
ROOMS: dict[str, set[str]] = {
    "acode": {"embedded", "runner", "policy", "model", "errors"},
    "errors": set(),
    "clock": set(),
    "ids": set(),
    "model": set(),
    "policy": BASICS,
    "store": BASICS,
    "sockets": BASICS,
    "workspace": BASICS,
    "runner": {"policy", "sockets", *BASICS},
    "observe": BASICS,
    "reading": {"model", "errors"},
    "settings": {"reading", "policy", *BASICS},
    "spec": {"reading", "policy", *BASICS},
    "project": {"reading", *BASICS},
    "keys": {"project", *BASICS},
    "hosts": {"project", *BASICS},
    "peers": {"store", "observe", *BASICS},
    "views": {"store", "policy", "observe", *BASICS},
    "human": set(),
    "why": {"human", "views", "store", *BASICS},
    "worker": INNER - {"store"},
    "engine": {"worker", "settings", "project", "keys", "hosts", *INNER},
    "app": {"engine", "settings", "project", "keys", "hosts", *INNER},
    "embedded": {"app", "worker", "engine", "settings", "hosts", *INNER},
    "testing": {"acode", "embedded", *BASICS},
    "tui": {"app", "engine", *TELLERS, *READERS, *INNER},
    "gateway": {"acode", "app", "engine", *TELLERS, *READERS, *INNER},
    "cli": {"acode", "tui", "app", "engine", *TELLERS, *READERS, *INNER},
}

MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


every_module = pytest.mark.parametrize("path", MODULES, ids=name_of)


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def room_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "acode" if first == "__init__" else first


def imported_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are written out in full"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported_rooms(tree: ast.Module) -> set[str]:
    ours = [name.split(".") for name in imported_names(tree) if name.split(".")[0] == "acode"]
    return {parts[1] if len(parts) > 1 and parts[1] in ROOMS else "acode" for parts in ours}


def functions_of(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def test_every_room_is_in_the_table() -> None:
    assert {room_of(path) for path in MODULES} <= set(ROOMS)


def test_the_table_has_no_circle() -> None:
    left = dict(ROOMS)
    while left:
        free = [room for room, known in left.items() if not known & set(left)]
        assert free, f"these rooms import each other: {sorted(left)}"
        for room in free:
            del left[room]


@every_module
def test_a_room_imports_only_what_it_may(path: Path) -> None:
    room = room_of(path)
    assert imported_rooms(tree_of(path)) <= ROOMS[room] | {room}


def test_the_drawn_table_of_rooms_is_the_real_one() -> None:
    drawn = {
        room: set(re.findall(r"`(\w+)`", imports))
        for room, imports in re.findall(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|$", DRAWINGS, re.MULTILINE)
    }
    assert drawn == ROOMS


@every_module
def test_a_module_is_short(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_MODULE_LINES


@every_module
def test_a_function_is_short(path: Path) -> None:
    sizes = [(length_of(each), each.name) for each in functions_of(tree_of(path))]
    assert not [(size, name) for size, name in sizes if size > MAX_FUNCTION_LINES]


CLOCK_READS = {
    *(
        f"time.{name}{unit}"
        for name in ("time", "monotonic", "perf_counter")
        for unit in ("", "_ns")
    ),
    *(f"{kind}.{name}" for kind in ("datetime", "date") for name in ("now", "utcnow", "today")),
}


@every_module
def test_time_comes_from_the_clock(path: Path) -> None:
    if path == PACKAGE / "clock.py":
        return
    tree = tree_of(path)
    used = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names = used | set(imported_names(tree))
    assert not {".".join(name.split(".")[-2:]) for name in names} & CLOCK_READS


@every_module
def test_only_the_command_line_prints(path: Path) -> None:
    calls = [node.func for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]
    prints = any(isinstance(func, ast.Name) and func.id == "print" for func in calls)
    assert not prints or room_of(path) == "cli"


SQL = re.compile(
    r"\s*(select\s|with\s+\w+\s+as\b|insert\s+(or|into)\b|replace\s+into\b|update\s+\w+\s+set\b"
    r"|delete\s+from\b|(create|alter|drop)\s+(unique\s+)?(table|index|view|trigger)\b)",
    re.IGNORECASE,
)


def strings_of(tree: ast.Module) -> Iterator[str]:
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


@every_module
def test_sql_lives_in_sql_files(path: Path) -> None:
    found = [text for text in strings_of(tree_of(path)) if SQL.match(text)]
    # What asks about the file itself comes before any schema.
    assert not [text for text in found if "sqlite_schema" not in text]


def drawn_moves(machine: str) -> set[tuple[str, str]]:
    """The arrows of the state diagram that begins with the comment `%% machine`."""
    match = re.search(rf"```mermaid\nstateDiagram-v2\n\s*%% {machine}\n(.*?)```", DRAWINGS, re.S)
    assert match, f"ARCHITECTURE.md draws no {machine}"
    return set(re.findall(r"^\s*(\w+) --> (\w+)", match[1], re.MULTILINE))


def moves_of(table: Mapping[StrEnum, frozenset[StrEnum]]) -> set[tuple[str, str]]:
    return {(was.value, became.value) for was, after in table.items() for became in after}


@pytest.mark.parametrize(
    ("machine", "table"),
    [("task", MOVES), ("worker", WORKER_MOVES), ("circuit", CIRCUIT_MOVES)],
    ids=["task", "worker", "circuit"],
)
def test_the_drawn_states_are_the_real_ones(
    machine: str, table: Mapping[StrEnum, frozenset[StrEnum]]
) -> None:
    assert drawn_moves(machine) == moves_of(table)


def project_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.needs("git")
@pytest.mark.parametrize("place", [ROOT, Path.home()], ids=["checkout", "home"])
def test_no_file_knows_where_it_was_written(place: Path) -> None:
    here = re.compile(rf"(?<![\w./-]){re.escape(str(place))}(?![\w-])".encode())
    assert not [path for path in project_files() if here.search(path.read_bytes())]


def test_constraints_hold_versions_and_no_addresses() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert pins
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", pin) for pin in pins)
