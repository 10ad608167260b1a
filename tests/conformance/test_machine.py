"""Two stores side by side, driven at random, against a model on plain dictionaries."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from acode.clock import ManualClock
from acode.errors import AcodeError, LeaseLost
from acode.ids import IdSource
from acode.model.priority import Priority
from acode.model.state import Status
from acode.model.task import Lease
from acode.model.verdict import Cancel, Complete, Fail, Release, RetryAt, Verdict
from acode.store.base import Circuit, Store, TaskQuery
from acode.store.memory import MemoryStore
from acode.store.sqlite import SqliteStore
from tests.conformance.kit import (
    FAILURE,
    PLENTY,
    TIMEOUT,
    World,
    assert_sound,
    at_once,
    report,
    submission,
    wish,
)
from tests.conformance.model import AGEING, Model, Refused
from tests.postgres.server import clean_database

Call = Callable[[Store], Coroutine[Any, Any, Any]]
Spec = dict[str, Any]
Pair = list[Lease]
"""The same lease in either store; only the tokens differ."""

SPANS = st.sampled_from([0, 0, 0, 1, 1000, AGEING // 2, AGEING])
PLACES = st.integers(0, 99)
STEPS = st.dictionaries(st.sampled_from(["one", "two"]), st.integers(0, 9))
WISHES = st.sampled_from(["cancel", "retry", "drop"])
KINDS = st.sampled_from(["shell", "script"])
STREAMS = st.sampled_from([None, "docs"])
CIRCUITS = st.sets(st.builds(Circuit, KINDS, STREAMS), max_size=2)
SPECS = st.fixed_dictionaries(
    {
        "priority": st.sampled_from(Priority),
        "kind": KINDS,
        "stream": STREAMS,
        "key": st.sampled_from([None, None, None, "a", "b"]),
        "delay": st.sampled_from([0, 0, 1000, AGEING]),
    }
)
VERDICTS = st.sampled_from(["complete", "fail", "retry", "release", "cancel"])


class Queue(RuleBasedStateMachine):
    """Every call goes to both stores and to the model; all three must agree.

    Few rules with many words: Hypothesis leaves whole rules out of a run, which is no loss then.
    """

    @initialize(specs=st.lists(SPECS, min_size=3, max_size=8))
    def open_stores(self, specs: list[Spec]) -> None:
        self.clock = ManualClock()
        self.new_id = IdSource().new
        self.model = Model()
        self.ids: list[str] = []
        self.out: list[Pair] = []
        self.spent: list[Pair] = []
        self.stores: list[Store] = [MemoryStore(self.clock, ageing_ms=AGEING), self.open_other()]
        for spec in specs:
            self.add(0, spec, [])

    def open_other(self) -> Store:
        return SqliteStore.open(":memory:", self.clock, ageing_ms=AGEING, grouped=False)

    def teardown(self) -> None:
        for store in getattr(self, "stores", []):
            at_once(assert_sound(store))
            at_once(store.close())

    @property
    def now(self) -> int:
        return self.clock.now()

    def both(self, call: Call) -> Any:
        """Ask both stores; the one answer that they give, which may be a refusal."""
        one, other = (outcome_of(call(store)) for store in self.stores)
        assert type(one) is type(other)
        assert str(one) == str(other) if isinstance(one, AcodeError) else one == other
        return one

    def agree(self, call: Call, expected: Callable[[], object]) -> Any:
        """The stores refuse what the model refuses, and nothing else."""
        answer = self.both(call)
        try:
            expected()
        except Refused:
            assert isinstance(answer, AcodeError)
        else:
            assert not isinstance(answer, AcodeError)
        return answer

    @rule(span=SPANS, spec=SPECS, places=st.lists(PLACES, max_size=2))
    def add(self, span: int, spec: Spec, places: list[int]) -> None:
        self.clock.advance(span)
        task_id = self.new_id(self.now)
        needs = list(dict.fromkeys(self.ids[place % len(self.ids)] for place in places))
        one = submission(
            id=task_id,
            priority=spec["priority"],
            type=spec["kind"],
            workstream_id=spec["stream"],
            dependencies=tuple(needs),
            key=spec["key"],
            delay_seconds=spec["delay"] / 1000,
        )
        expected: list[Any] = []
        answer = self.agree(
            lambda store: store.add([one], actor="user", queue_size=PLENTY),
            lambda: expected.extend(self.model.add(task_id, spec | {"needs": needs}, self.now)),
        )
        if expected:
            assert [answer[0].id, answer[0].existed] == expected
            assert answer[0].status == self.model.tasks[answer[0].id]["status"]
            self.ids.append(answer[0].id)

    @rule(span=SPANS, limit=st.integers(0, 5), held=CIRCUITS)
    def claim(self, span: int, limit: int, held: set[Circuit]) -> None:
        self.clock.advance(span)
        one, other = (at_once(store.claim(wish(limit, held))) for store in self.stores)
        assert [without_token(lease) for lease in one] == [without_token(lease) for lease in other]
        ids = self.model.claim(limit, held, self.now)
        assert [lease.task.id for lease in one] == ids
        for lease in one:
            row = self.model.tasks[lease.task.id]
            assert lease.steps == row["steps"]
            assert (lease.task.attempt_count, lease.number) == (row["count"], row["last"])
        self.out += [list(pair) for pair in zip(one, other, strict=True)]

    @precondition(lambda self: self.out)
    @rule(span=SPANS, place=PLACES, steps=STEPS, verdict=VERDICTS)
    def finish(self, span: int, place: int, steps: dict[str, int], verdict: str) -> None:
        self.clock.advance(span)
        pair = self.out.pop(place % len(self.out))
        for store, lease in zip(self.stores, pair, strict=True):
            for step, value in steps.items():
                at_once(store.save_step(lease.task.id, lease.token, step, value))
            at_once(store.finish(report(lease, self.verdict(verdict), self.now)))
        self.model.tasks[pair[0].task.id]["steps"] |= steps
        self.model.finish(pair[0].task.id, verdict, self.now)
        self.spent.append(pair)

    def verdict(self, word: str) -> Verdict:
        verdicts: dict[str, Verdict] = {
            "complete": Complete(),
            "fail": Fail(FAILURE, "failed"),
            "retry": RetryAt(self.now, TIMEOUT, "once more"),
            "release": Release("drained"),
            "cancel": Cancel(),
        }
        return verdicts[word]

    @precondition(lambda self: self.spent)
    @rule(place=PLACES, verdict=VERDICTS)
    def write_too_late(self, place: int, verdict: str) -> None:
        pair = self.spent[place % len(self.spent)]
        for store, lease in zip(self.stores, pair, strict=True):
            with pytest.raises(LeaseLost):
                at_once(store.finish(report(lease, self.verdict(verdict), self.now), then=wish(5)))
            with pytest.raises(LeaseLost):
                at_once(store.save_step(lease.task.id, lease.token, "one", "late"))

    @rule(span=SPANS, place=PLACES, verb=WISHES, flag=st.booleans())
    def wish(self, span: int, place: int, verb: str, flag: bool) -> None:
        self.clock.advance(span)
        task_id = self.ids[place % len(self.ids)]
        calls: dict[str, tuple[Call, Callable[[], object]]] = {
            "cancel": (
                lambda store: store.cancel(task_id, actor="user", force=flag),
                lambda: self.model.cancel(task_id, self.now),
            ),
            "retry": (
                lambda store: store.retry(task_id, actor="user", reset_attempts=flag),
                lambda: self.model.retry(task_id, flag, self.now),
            ),
            "drop": (
                lambda store: store.drop(task_id, actor="user"),
                lambda: self.model.drop(task_id),
            ),
        }
        self.agree(*calls[verb])

    @rule(span=SPANS, age=st.sampled_from([0, 1000, AGEING]), paused=st.booleans())
    def tidy_and_pause(self, span: int, age: int, paused: bool) -> None:
        self.clock.advance(span)
        before = self.now - age
        tidied = self.both(lambda store: store.tidy(finished_before=before, steps_before=0))
        assert tidied.archived == self.model.tidy(before)
        changed = self.both(lambda store: store.pause(paused, actor="user"))
        assert changed is (paused is not self.model.paused)
        self.model.paused = paused

    @invariant()
    def the_tasks_are_the_same(self) -> None:
        tasks = self.both(lambda store: store.find(TaskQuery(limit=PLENTY)))
        assert [task.id for task in tasks] == list(self.model.tasks)
        for task in tasks:
            row = self.model.tasks[task.id]
            assert (task.status, task.ready_at) == (row["status"], row["ready_at"])
            assert (task.attempt_count, task.last_attempt) == (row["count"], row["last"])
            assert bool(task.cancel) is row["wish"]

    @invariant()
    def the_tallies_are_the_same(self) -> None:
        counts = self.both(lambda store: store.counts())
        tallies = self.model.tallies()
        assert counts.by_status == {s: sum(tallies[s, p] for p in Priority) for s in Status}
        assert counts.pending_by_priority == {p: tallies["pending", p] for p in Priority}
        assert counts.paused is self.model.paused

    @invariant()
    def the_letters_are_the_same(self) -> None:
        letters = self.both(lambda store: store.dead_letters())
        assert [letter.task_id for letter in letters] == self.model.letters
        for letter in letters:
            assert letter.checkpoint == self.model.tasks[letter.task_id]["steps"]

    @invariant()
    def the_histories_are_the_same(self) -> None:
        self.both(lambda store: World(store, self.clock).everything())
        self.both(lambda store: store.moves(0, PLENTY))
        self.both(lambda store: store.wishes())
        assert self.both(lambda store: store.check()) == []


class QueueInPostgres(Queue):
    """The same with a server: slower, so that it gets fewer turns."""

    def open_other(self) -> Store:
        from acode.store.postgres import PostgresStore

        url = clean_database()
        return PostgresStore.open(url, self.clock, ageing_ms=AGEING, grouped=False)


def outcome_of(coroutine: Coroutine[Any, Any, Any]) -> Any:
    try:
        return at_once(coroutine)
    except AcodeError as refusal:
        return refusal


def without_token(lease: Lease) -> Lease:
    return replace(lease, token="")


@pytest.mark.req("027-FR-035", "forge-02", "lld-11")
def test_both_stores_do_what_the_model_does() -> None:
    run_state_machine_as_test(Queue, settings=settings(max_examples=250, stateful_step_count=50))


@pytest.mark.needs("postgresql")
def test_postgresql_does_what_the_model_does() -> None:
    few = settings(max_examples=25, stateful_step_count=40)
    run_state_machine_as_test(QueueInPostgres, settings=few)
