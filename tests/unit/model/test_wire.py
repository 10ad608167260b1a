"""Everything that is stored or sent comes back as it was."""

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acode.model.ending import Cancelled, Ending, Exited, NotStarted, Signalled, TimedOut, Usage
from acode.model.failure import Category, Failure, FailureCode
from acode.model.priority import Priority
from acode.model.task import Attempt, DeadLetter, Mode, Result, TaskLimits, TaskSpec, WorkspaceKind
from acode.model.verdict import Report, Verdict
from acode.model.worker import ProcessIdentity, Worker

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
AMOUNTS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | AMOUNTS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
TYPES: dict[Any, st.SearchStrategy[Any]] = {str: WORDS, int: NUMBERS, float: AMOUNTS, Any: JSON}


def built(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a type, however deep its structs are nested."""
    if kind in TYPES:
        return TYPES[kind]
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields = msgspec.structs.fields(kind)
        return st.builds(kind, **{field.name: built(field.type) for field in fields})
    arguments = get_args(kind)
    origin = getattr(kind, "__origin__", None)
    if origin is tuple:
        return st.lists(built(arguments[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(built(arguments[0]), built(arguments[1]), max_size=3)
    if arguments:
        return st.one_of(*(built(argument) for argument in arguments))
    return st.from_type(kind)


def through_json(value: Any, kind: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value), type=kind)


@pytest.mark.parametrize("kind", get_args(Ending), ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_every_ending_comes_back(kind: type[Ending], data: st.DataObject) -> None:
    ending = data.draw(built(kind))
    back = through_json(ending, Ending)
    assert (type(back), back) == (kind, ending)


@pytest.mark.parametrize("kind", get_args(Verdict), ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_every_verdict_comes_back(kind: type[Verdict], data: st.DataObject) -> None:
    verdict = data.draw(built(kind))
    assert through_json(verdict, kind) == verdict


@given(built(TaskSpec))
def test_every_spec_comes_back(spec: TaskSpec) -> None:
    assert through_json(spec, TaskSpec) == spec


@pytest.mark.parametrize(
    "kind",
    [Attempt, DeadLetter, Failure, ProcessIdentity, Result, Usage, Worker],
    ids=lambda kind: kind.__name__,
)
@given(data=st.data())
def test_everything_else_that_is_kept_comes_back(kind: Any, data: st.DataObject) -> None:
    value = data.draw(built(kind))
    assert through_json(value, kind) == value


def test_an_ending_has_its_promised_names() -> None:
    names = [kind.__struct_config__.tag for kind in get_args(Ending)]
    promised = "exited signalled timedOut cancelled overLimit lost released notStarted"
    assert names == promised.split(" ")


def test_a_spec_is_written_short_and_in_camel_case() -> None:
    spec = TaskSpec(
        command="make",
        args=("all",),
        priority=Priority.HIGH,
        workstream_id="docs",
        timeout_seconds=5,
        retry_limit=0,
        mode=Mode.DOCKER,
        workspace=WorkspaceKind.SCRATCH,
        limits=TaskLimits(memory_mb=64),
    )
    assert msgspec.to_builtins(spec) == {
        "command": "make",
        "args": ("all",),
        "priority": "high",
        "workstreamId": "docs",
        "timeoutSeconds": 5,
        "retryLimit": 0,
        "mode": "docker",
        "workspace": "scratch",
        "limits": {"memoryMb": 64},
    }
    assert msgspec.to_builtins(TaskSpec(command="make")) == {"command": "make"}


def test_a_failure_is_written_in_camel_case() -> None:
    failure = Failure(
        FailureCode.EXIT_CODE,
        Category.PARTIAL,
        "moved, not tagged",
        hint="tag it",
        retry_after_ms=5,
        failed_step="tag",
        final=True,
    )
    assert msgspec.to_builtins(failure) == {
        "code": "EXIT_CODE",
        "category": "partial",
        "message": "moved, not tagged",
        "hint": "tag it",
        "retryAfterMs": 5,
        "failedStep": "tag",
        "final": True,
    }


@pytest.mark.parametrize(
    ("ending", "written"),
    [
        (Exited(1), b'{"type":"exited","code":1}'),
        (Signalled(9), b'{"type":"signalled","signal":9}'),
        (Signalled(9, oom=True), b'{"type":"signalled","signal":9,"oom":true}'),
        (Cancelled(), b'{"type":"cancelled"}'),
    ],
)
def test_an_ending_says_its_type(ending: Ending, written: bytes) -> None:
    assert msgspec.json.encode(ending) == written


def test_values_cannot_be_changed() -> None:
    failure = Failure(FailureCode.TIMEOUT, Category.TRANSIENT, "slow")
    for value in (TimedOut(1), NotStarted(failure), failure, TaskSpec(command="x"), Result()):
        name = value.__struct_fields__[0]
        with pytest.raises(AttributeError, match="immutable"):
            setattr(value, name, None)


@pytest.mark.parametrize(
    ("kind", "counted_as"), [("shell", "shell"), ("claude-code", "claude-code"), ("python", "tag")]
)
def test_python_tasks_are_counted_by_their_handler(kind: str, counted_as: str) -> None:
    assert TaskSpec(command="tag", type=kind).kind == counted_as


def test_a_report_names_the_daemon_unless_told_otherwise() -> None:
    assert (
        Report(
            task_id="1", token="t", ending=Exited(0), ended_at=1, verdict=get_args(Verdict)[0]()
        ).actor
        == "daemon"
    )
