"""Task files and flags to drafts."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from itertools import pairwise

import msgspec
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from acode.errors import InvalidTask, TaskNotFound, UsageError
from acode.model.priority import Priority
from acode.model.task import Mode, TaskLimits, TaskSpec, WorkspaceKind
from acode.spec import MAX_TASKS, draft_from_flags, read_batch
from acode.spec.draft import Draft, submissions

FULL = {
    "title": "Build it",
    "type": "codex",
    "command": "make",
    "args": ["-j", "4"],
    "priority": "high",
    "workstreamId": "docs",
    "env": {"CI": "1"},
    "timeoutSeconds": 0.25,
    "retryLimit": 2,
    "dependencies": ["01ARZ"],
    "mode": "docker",
    "workspace": "worktree",
    "base": "main",
    "cwd": "src",
    "artifacts": ["dist/*"],
    "key": "once",
    "delaySeconds": 1.5,
    "limits": {"memoryMb": 64, "cpuPercent": 50, "diskMb": 10},
    "metadata": {"any": [1, {"json": None}]},
}
FULL_SPEC = TaskSpec(
    title="Build it",
    type="codex",
    command="make",
    args=("-j", "4"),
    priority=Priority.HIGH,
    workstream_id="docs",
    env={"CI": "1"},
    timeout_seconds=0.25,
    retry_limit=2,
    mode=Mode.DOCKER,
    workspace=WorkspaceKind.WORKTREE,
    base="main",
    cwd="src",
    artifacts=("dist/*",),
    key="once",
    delay_seconds=1.5,
    limits=TaskLimits(64, 50.0, 10),
    metadata={"any": [1, {"json": None}]},
)


@pytest.fixture
def root(tmp_path):
    (tmp_path / "project/src").mkdir(parents=True)
    (tmp_path / "project/run.sh").write_text("exit")
    (tmp_path / "project/out").symlink_to(tmp_path)
    return str(tmp_path / "project")


@pytest.fixture
def batch(root):
    def read(text: str, source: str = "tasks.yml") -> list[Draft]:
        return read_batch(text.encode(), source, root=root, types=["codex"])

    return read


@pytest.fixture
def refused(batch):
    def lines(text: str, source: str = "tasks.yml") -> list[str]:
        with pytest.raises(InvalidTask) as caught:
            batch(text, source)
        return str(caught.value).splitlines()

    return lines


def commands(drafts: list[Draft]) -> list[str]:
    return [draft.spec.command for draft in drafts]


# Files


@pytest.mark.parametrize("source", ["tasks.json", "tasks.yml", "tasks.jsonl", "-"])
def test_every_field_of_a_task_is_read(batch, source):
    (draft,) = batch(json.dumps(FULL), source)
    assert (draft.name, draft.spec, draft.after) == (None, FULL_SPEC, ("01ARZ",))


@pytest.mark.req("forge-13")
async def test_a_task_has_the_fields_of_a_forge_task(batch):
    drafts = batch(json.dumps(FULL), "tasks.json")
    (task,) = await submissions(drafts, new_id=lambda: "ID", resolve=full_id)
    assert task.id == "ID"
    assert (task.spec.type, task.spec.command, task.spec.args) == ("codex", "make", ("-j", "4"))
    assert (task.spec.priority, task.spec.workstream_id) == ("high", "docs")
    assert task.spec.env == {"CI": "1"}
    assert task.spec.timeout_seconds == 0.25  # to the millisecond
    assert task.spec.retry_limit == 2
    assert task.spec.metadata == {"any": [1, {"json": None}]}


@pytest.mark.req("forge-12")
@pytest.mark.parametrize("kind", ["claude-code", "shell", "script", "python", "codex"])
def test_every_type_of_task_is_accepted(batch, kind):
    (draft,) = batch(f"{{command: 'tools.run:main', type: {kind}}}")
    assert draft.spec.type == kind


@pytest.mark.parametrize("command", ["run.sh", "tools:", ":main", "a b:c", "tools:3", "os:a:b"])
def test_a_function_has_a_module_and_a_name(refused, command):
    (problem,) = refused(f"{{command: '{command}', type: python}}")
    assert "a function as module:function" in problem


def test_flag_names_and_snake_case_are_other_names(batch):
    aliases = {
        "command": "x",
        "timeout": 5,
        "retries": 1,
        "after": ["01AB"],
        "workstream": "w",
        "delay": 3,
        "limits": {"memory_mb": 1, "cpu_percent": 2, "disk_mb": 3},
    }
    snake = {
        "command": "x",
        "timeout_seconds": 5,
        "retry_limit": 1,
        "dependencies": ["01AB"],
        "workstream_id": "w",
        "delay_seconds": 3,
        "limits": {"memoryMb": 1, "cpuPercent": 2, "diskMb": 3},
    }
    (one,), (other,) = batch(json.dumps(aliases)), batch(json.dumps(snake))
    assert (one.spec, one.after) == (other.spec, other.after)


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("a.yml", "command: make", ["make"]),
        ("a.yml", "- command: make\n- ls -l\n- true\n", ["make", "ls -l", "true"]),
        ("a.yml", "tasks:\n- make\n- {command: ls}\n", ["make", "ls"]),
        ("a.yml", "tasks: {command: make}", ["make"]),
        ("a.json", '{"tasks": ["make", {"command": "ls"}]}', ["make", "ls"]),
        ("a.jsonl", '{"command": "make"}\n\n"ls"\n', ["make", "ls"]),
        ("-", '{"command": "make"}\n{"command": "ls"}\n', ["make", "ls"]),
        ("-", "make all\r\n\r\n# comment\r\nls\r\n", ["make all", "ls"]),
        ("list.txt", "\ufeffmake all\n", ["make all"]),
    ],
)
def test_a_batch_comes_in_many_forms(batch, source, text, expected):
    assert commands(batch(text, source)) == expected


def test_numbers_and_booleans_become_text_as_they_were_written(batch):
    (draft,) = batch("{command: x, args: [1.10, true], env: {A: 007, B: false, C: 1e3}, key: 42}")
    assert draft.spec.args == ("1.10", "true")
    assert draft.spec.env == {"A": "007", "B": "false", "C": "1e3"}
    assert draft.spec.key == "42"


def test_a_single_dependency_needs_no_list(batch):
    assert batch("[{command: x, name: a}, {command: y, after: a}]")[1].after == ("a",)


def test_a_dependency_named_twice_counts_once(batch):
    assert batch("[{command: x, name: a}, {command: y, after: [a, a]}]")[1].after == ("a",)


@pytest.mark.parametrize(
    ("task", "problem"),
    [
        ("{}", "command: found nothing, expected a command"),
        ("{command: ''}", 'command: found "", expected a command that is not empty'),
        ("{command: ' '}", 'command: found " ", expected a command that is not empty'),
        ("{command: [a]}", "command: found a list, expected a command that is not empty"),
        ('{command: "a\\0b"}', "command: found text with a NUL character, expected text"),
        ("{command: x, args: {a: b}}", "args: found a mapping, expected a list"),
        ("{command: x, args: [[a]]}", "args[0]: found a list, expected text"),
        ('{command: x, args: ["\\0"]}', "args[0]: found text with a NUL character, expected text"),
        (
            "{command: x, type: perl}",
            'type: found "perl", expected one of shell, script, claude-code, python, codex',
        ),
        (
            "{command: x, priority: urgent}",
            'priority: found "urgent", expected one of high, medium, low, background',
        ),
        (
            '{command: x, title: "a\\nb"}',
            'title: found "a\\nb", expected one line of at most 200 characters',
        ),
        (
            "{command: x, env: {A-B: c}}",
            'env.A-B: found "A-B", expected the name of a variable: letters, digits and _',
        ),
        ("{command: x, env: {A: null}}", "env.A: found null, expected text"),
        ("{command: x, env: [A]}", "env: found a list, expected a mapping"),
        (
            "{command: x, timeout: 0}",
            "timeout: found 0, expected a number above 0 and of at most 315,360,000",
        ),
        ("{command: x, retries: -1}", "retries: found -1, expected a whole number from 0 to 100"),
        ("{command: x, retries: 101}", "retries: found 101, expected a whole number from 0 to 100"),
        ("{command: x, retries: 1.5}", "retries: found 1.5, expected a whole number from 0 to 100"),
        ("{command: x, delay: -1}", "delay: found -1, expected a number from 0 to 315,360,000"),
        (
            "{command: x, limits: {memoryMb: 0}}",
            "limits.memoryMb: found 0, expected a whole number from 1 to 1,000,000,000",
        ),
        (
            "{command: x, limits: {cpuPercent: 0}}",
            "limits.cpuPercent: found 0, expected a number above 0 and of at most 1,000,000",
        ),
        ("{command: x, metadata: [1]}", "metadata: found a list, expected a mapping"),
        ("{command: x, mode: vm}", 'mode: found "vm", expected one of process, docker'),
        (
            "{command: x, workspace: tmp}",
            'workspace: found "tmp", expected one of worktree, scratch, project',
        ),
        ("{command: x, base: --all}", 'base: found "--all", expected a branch, tag or commit'),
        ("{command: x, cwd: /etc}", 'cwd: found "/etc", expected a directory inside the project'),
        ("{command: x, base: v1, workspace: scratch}", 'base: found "v1", expected nothing: only'),
        ("{command: x, base: v1, workspace: project}", 'base: found "v1", expected nothing: only'),
        ("{command: x, cwd: a/../..}", 'cwd: found "a/../..", expected a directory inside'),
        ("{command: x, cwd: out}", 'cwd: found "out", expected a directory inside the project'),
        (
            "{command: x, artifacts: [ok, ../*]}",
            'artifacts: found "../*", expected files inside the project',
        ),
        (
            f"{{command: x, artifacts: [{'a,' * 1001}]}}",
            "artifacts: found 1,001 entries, expected at most 1,000",
        ),
        (
            "{command: out/x.sh, type: script}",
            'command: found "out/x.sh", expected a script inside the project',
        ),
        (
            "{command: x, after: [no/name]}",
            'after: found "no/name", expected the name of a task in this file or the id of a task',
        ),
        (
            "{command: x, timeout: 1, timeoutSeconds: 1}",
            "timeoutSeconds: found timeout as well, which means the same, expected one of them",
        ),
        ("{command: x, name: a, after: a}", "after: found the cycle a -> a, "),
        ("{command: x, id: 5}", "id: found an unknown key, expected one of name, command, "),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_task_is_said_with_its_place(refused, task, problem):
    (line,) = refused(f"tasks:\n- echo\n- {task}\n")
    assert line.startswith(f"tasks.yml:3: tasks[1].{problem}")


@pytest.mark.parametrize("field", ["title", "key", "name", "workstream"])
def test_labels_have_at_most_200_characters(batch, refused, field):
    assert batch(f"{{command: x, {field}: {'a' * 200}}}")
    (line,) = refused(f"{{command: x, {field}: {'a' * 201}}}")
    assert line.endswith("expected one line of at most 200 characters")


def test_every_problem_of_a_file_is_listed(refused):
    lines = refused("""\
- command: ''
  priority: urgent
- {command: x, retries: many, timout: 3}
- null
- [x]
""")
    assert [line.split(": ")[:2] for line in lines] == [
        ["tasks.yml:1", "[0].command"],
        ["tasks.yml:2", "[0].priority"],
        ["tasks.yml:3", "[1].timout"],
        ["tasks.yml:3", "[1].retries"],
        ["tasks.yml:4", "[2]"],
        ["tasks.yml:5", "[3]"],
    ]
    assert "did you mean timeout?" in lines[2]


def test_hundreds_of_problems_are_cut(refused):
    lines = refused("\n".join(["- {command: x, priority: no}"] * 300))
    assert len(lines) == 51
    assert lines[-1] == "… and 250 more"


@pytest.mark.parametrize("text", ["", "# nothing\n", "[]", "tasks: []", "{tasks: }"])
def test_a_file_without_tasks_is_refused(refused, text):
    (line,) = refused(text)
    assert "expected at least one task" in line or "expected a task" in line


def test_other_keys_beside_tasks_are_refused(refused):
    assert refused("tasks: [x]\nversion: 1\n") == [
        "tasks.yml:2: version: found another key, expected only tasks"
    ]


def test_the_number_of_tasks_is_limited(batch, refused):
    assert len(batch("x\n" * MAX_TASKS, "-")) == 10_000
    assert refused("x\n" * (MAX_TASKS + 1), "-") == [
        "-:1: found 10,001 tasks, expected at most 10,000 tasks"
    ]


def test_names_are_unique_in_a_file(refused):
    assert refused("- {command: x, name: a}\n- {command: y, name: a}\n") == [
        'tasks.yml:2: [1].name: found "a" again (first on line 1), expected a name of its own'
    ]


def test_a_cycle_is_printed_as_the_way_round(refused):
    text = """\
- {command: x, name: a, after: [c]}
- {command: x, name: b, after: [a]}
- {command: x, name: c, after: [b]}
- {command: x, name: d, after: [a]}
"""
    assert refused(text) == [
        "tasks.yml:1: [0].after: found the cycle a -> c -> b -> a, "
        "expected tasks that do not wait for each other"
    ]


def test_a_very_long_cycle_is_found_and_printed_short(refused):
    tasks = [
        {"command": "x", "name": f"t{n}", "after": [f"t{(n + 1) % 9000}"]} for n in range(9000)
    ]
    (line,) = refused(json.dumps(tasks), "-")
    assert "the cycle t0 -> t1 -> " in line
    assert "-> … -> t0, " in line
    assert len(line) < 300


def test_a_task_that_is_wrong_elsewhere_still_lends_its_name(refused):
    (line,) = refused("- {command: [x], name: a-a}\n- {command: y, after: a-a}\n")
    assert ": [0].command: " in line


def test_a_batch_of_ten_thousand_waiting_in_line_is_fine(batch):
    tasks = [{"command": "x", "name": f"t{n}"} for n in range(MAX_TASKS)]
    for before, task in pairwise(tasks):
        task["after"] = before["name"]
    assert len(batch(json.dumps(tasks), "-")) == MAX_TASKS


# Flags


@pytest.fixture
def flags(root):
    def draft(**values):
        return draft_from_flags(values, root=root, types=["codex"])

    return draft


def test_a_command_alone_is_a_draft(flags):
    assert flags(command="make") == Draft(None, TaskSpec(command="make"))


def test_flags_fill_every_field(flags):
    assert flags(
        title="Build it",
        type="codex",
        command="make",
        args=["-j", "4"],
        priority="high",
        workstream="docs",
        env=["CI=1"],
        timeout="0.25",
        retries=2,
        after=["01ARZ"],
        mode="docker",
        workspace="worktree",
        base="main",
        cwd="src",
        artifact=["dist/*"],
        key="once",
        delay=1.5,
        memory_mb="64",
        cpu_percent=50,
        disk_mb=10,
        meta=["any=thing"],
    ) == Draft(None, msgspec.structs.replace(FULL_SPEC, metadata={"any": "thing"}), ("01ARZ",))


def test_flags_that_were_not_given_and_other_keys_do_not_count(flags):
    assert flags(command="x", timeout=None, env=None, json=True) == flags(command="x")


def test_a_value_may_hold_equals_signs_and_be_empty(flags):
    assert flags(command="x", env=["A=b=c", "B="]).spec.env == {"A": "b=c", "B": ""}


def test_text_flags_are_taken_literally(flags):
    spec = flags(command="true", args=["1.0", "null"], title="5", key="null").spec
    assert (spec.command, spec.args, spec.title, spec.key) == ("true", ("1.0", "null"), "5", "null")


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"timeout": "soon"}, '--timeout: found "soon", expected a number above 0'),
        ({"timeout": 0.0}, "--timeout: found 0.0, expected a number above 0"),
        ({"timeout": "9" * 400}, '--timeout: found "99'),
        ({"retries": "1.5"}, "--retries: found 1.5, expected a whole number from 0 to 100"),
        ({"priority": "urgent"}, '--priority: found "urgent", expected one of high, medium, '),
        ({"type": "perl"}, '--type: found "perl", expected one of shell, '),
        ({"env": ["A"]}, '--env: found "A", expected NAME=VALUE'),
        ({"env": ["=x"]}, '--env: found "=x", expected NAME=VALUE'),
        ({"env": ["A B=x"]}, '--env: found "A B", expected the name of a variable'),
        ({"env": ["A=\udc80"]}, "--env: found text that is not UTF-8, expected text"),
        ({"meta": ["x"]}, '--meta: found "x", expected NAME=VALUE'),
        ({"memory_mb": "0"}, "--memory-mb: found 0, expected a whole number from 1"),
        ({"after": ["no id"]}, '--after: found "no id", expected the id of a task'),
        ({"cwd": ".."}, '--cwd: found "..", expected a directory inside the project'),
        ({"artifact": ["/x"]}, '--artifact: found "/x", expected files inside the project'),
        ({"title": "a\nb"}, '--title: found "a\\nb", expected one line'),
        ({"command": ""}, 'COMMAND: found "", expected a command that is not empty'),
        ({"command": "\udcff"}, "COMMAND: found text that is not UTF-8, expected text"),
        ({"command": None}, "COMMAND: found nothing, expected a command"),
    ],
)
def test_a_wrong_flag_is_a_usage_error_that_names_it(flags, values, problem):
    with pytest.raises(UsageError) as caught:
        flags(**{"command": "x", **values})
    assert str(caught.value).splitlines()[0].startswith(problem)
    assert caught.value.exit_code == 2


def test_every_wrong_flag_is_listed(flags):
    with pytest.raises(UsageError) as caught:
        flags(command="x", timeout="a", retries="b", mode="c")
    assert len(str(caught.value).splitlines()) == 3


def test_a_command_on_the_command_line_costs_no_parser():
    code = (
        "import sys; from acode.spec import draft_from_flags;"
        "draft_from_flags({'command': 'make', 'timeout': '5'}, root='.', types=());"
        "heavy = ('yaml', 'json', 'asyncio', 'difflib', 'pathlib', 'dataclasses');"
        "print([name for name in heavy if name in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


# Submissions


async def full_id(prefix: str) -> str:
    return f"FULL-{prefix}"


def counting():
    return map("ID{}".format, range(1, 100)).__next__


async def test_submissions_have_ids_and_wait_for_ids(batch):
    drafts = batch("""
- {command: x, name: build}
- {command: y, after: [build, 01AB, build]}
- {command: z, after: [01AB]}
""")
    first, second, third = await submissions(drafts, new_id=counting(), resolve=full_id)
    assert (first.id, first.spec.dependencies) == ("ID1", ())
    assert (second.id, second.spec.dependencies) == ("ID2", ("ID1", "FULL-01AB"))
    assert third.spec.dependencies == ("FULL-01AB",)


async def test_a_name_beats_a_prefix(batch):
    drafts = batch("[{command: x, name: 01AB}, {command: y, after: 01AB}]")
    _, second = await submissions(drafts, new_id=counting(), resolve=full_id)
    assert second.spec.dependencies == ("ID1",)


async def test_a_task_may_wait_for_one_that_comes_later_in_the_file(batch):
    drafts = batch("[{command: y, after: late}, {command: x, name: late}]")
    first, _ = await submissions(drafts, new_id=counting(), resolve=full_id)
    assert first.spec.dependencies == ("ID2",)


async def test_each_prefix_is_looked_up_once(batch):
    asked = []

    async def resolve(prefix):
        asked.append(prefix)
        return await full_id(prefix)

    drafts = batch("[{command: y, after: 01AB}, {command: x, after: 01AB}]")
    await submissions(drafts, new_id=counting(), resolve=resolve)
    assert asked == ["01AB"]


async def test_an_id_that_nobody_has_stops_the_batch(batch):
    async def resolve(prefix):
        raise TaskNotFound(prefix)

    drafts = batch("{command: y, after: 01AB}")
    with pytest.raises(InvalidTask, match=r'tasks.yml:1: after: found "01AB"'):
        await submissions(drafts, new_id=counting(), resolve=resolve)


# Nothing gives a traceback

SOURCES = st.sampled_from(["a.yml", "a.json", "a.jsonl", "-"])
NAMES = st.sampled_from([*FULL, "name", "after", "timeout", "tasks", "memoryMb", "huh", "\0"])
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["high", "script", "../x", "out", "a", "b", "/", "*/../..", "x" * 201])
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=30,
)


def reads_or_is_refused(data: bytes, source: str) -> None:
    with suppress(InvalidTask):
        drafts = read_batch(data, source, root=os.getcwd(), types=())
        # What was accepted can be stored.
        msgspec.json.encode(drafts)


@given(st.binary(max_size=200), SOURCES)
def test_no_bytes_give_a_traceback(data, source):
    reads_or_is_refused(data, source)


@given(TREES, st.booleans())
@example([{"command": "x", "metadata": {"a": 2**80}}], False)
@example({"tasks": {"tasks": []}}, True)
def test_no_structure_gives_a_traceback(tree, as_yaml):
    if as_yaml:
        reads_or_is_refused(yaml.safe_dump(tree).encode(), "a.yml")
    else:
        reads_or_is_refused(json.dumps(tree).encode(), "a.json")


SOUND = {
    "a.yml": yaml.safe_dump({"tasks": [FULL, "make", {**FULL, "name": "b", "after": ["b"]}]}),
    "a.json": json.dumps([FULL, "make", FULL], indent=1),
    "a.jsonl": "\n".join([json.dumps(FULL)] * 3),
}


@given(
    st.sampled_from(sorted(SOUND)),
    st.integers(0, 1200),
    st.integers(0, 30),
    st.binary(max_size=5) | st.sampled_from([b"[", b"{", b'"', b": ", b"\n", b"\\u0000", b"&a *a"]),
)
def test_no_mutation_of_a_sound_file_gives_a_traceback(source, at, length, put):
    data = SOUND[source].encode()
    reads_or_is_refused(data[:at] + put + data[at + length :], source)


FLAG_VALUES = st.none() | st.text(max_size=8) | st.text(st.characters(), max_size=3)


@given(
    st.dictionaries(
        st.sampled_from(["command", "title", "type", "timeout", "retries", "cwd", "key", "base",
                         "memory_mb", "cpu_percent", "delay", "workstream", "priority"]),
        FLAG_VALUES,
    ),
    st.dictionaries(
        st.sampled_from(["args", "env", "after", "artifact", "meta"]),
        st.lists(st.text(st.characters(), max_size=6), max_size=3),
    ),
)  # fmt: skip
def test_no_flag_gives_a_traceback(single, several):
    with suppress(UsageError):
        assert draft_from_flags({**single, **several}, root=os.getcwd(), types=())
