"""Nothing frequent scans or sorts the whole table, whatever its size."""

import itertools
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from acode.clock import ManualClock
from acode.model.ending import Exited
from acode.model.priority import Priority
from acode.model.state import Status
from acode.model.verdict import Complete, Fail, Report
from acode.store.base import Circuit, Sort, TaskQuery, WholeKind
from acode.store.sqlite import SqliteStore
from acode.store.sqlite.transaction import QUERIES
from tests.conformance.kit import FAILURE, PLENTY, World, at_once, submission, wish


class Watched:
    """A store whose statements are kept, each with the plan that SQLite has for it."""

    def __init__(self) -> None:
        self.store: Any = SqliteStore.open(":memory:", ManualClock(), grouped=False)
        self.connection: sqlite3.Connection = self.store._book.connection
        self.world = World(self.store, ManualClock())

    def plans(self, call: Any) -> list[str]:
        """The steps of every plan that the call used."""
        statements: list[str] = []
        self.connection.set_trace_callback(statements.append)
        at_once(call)
        self.connection.set_trace_callback(None)
        control = ("BEGIN", "COMMIT", "ROLLBACK", "PRAGMA")
        queries = [sql for sql in statements if not sql.startswith(control)]
        assert queries
        return [step for sql in queries for step in self.plan(sql)]

    def steps(self, call: Any) -> int:
        """How many instructions SQLite runs for the call."""
        ticks = itertools.count()
        self.connection.set_progress_handler(lambda: next(ticks) < 0, 1)
        at_once(call)
        self.connection.set_progress_handler(None, 1)
        return next(ticks)

    def plan(self, sql: str) -> list[str]:
        return [row[3] for row in self.connection.execute(f"EXPLAIN QUERY PLAN {sql}")]


@pytest.fixture
def watched() -> Iterator[Watched]:
    """With rows and without statistics, as a real store is."""
    one = Watched()
    need = submission()
    batch = [submission(priority=p, workstream_id=w) for p in Priority for w in (None, "docs")]
    batch += [submission(dependencies=(need.id,)), need, submission(key="key")]
    at_once(one.world.add_all(*batch))
    yield one
    at_once(one.store.close())


BIG = ("tasks", "history", "dependencies", "checkpoints", "archive")


def assert_cheap(plans: list[str], *indexes: str) -> None:
    """Every big table is searched by an index; nothing of theirs is scanned or sorted."""
    scans = [step for step in plans if step.startswith(tuple(f"SCAN {table}" for table in BIG))]
    assert scans == []
    for index in indexes:
        assert any(index in step for step in plans), (index, plans)


def assert_unsorted(plans: list[str]) -> None:
    assert [step for step in plans if "TEMP B-TREE" in step] == []


@pytest.mark.parametrize("held", [(), (Circuit("shell", None), Circuit("script", "docs"))])
def test_a_claim_looks_only_at_the_heads_of_the_four_levels(
    watched: Watched, held: tuple[Circuit, ...]
) -> None:
    plans = watched.plans(watched.store.claim(wish(5, held)))
    assert_cheap(plans, "INDEX tasks_ready (priority=? AND ready_at<?)")
    assert sum("tasks_ready" in step for step in plans) == 4
    # The heads themselves are merged in memory: at most four times the limit.
    assert sum("TEMP B-TREE" in step for step in plans) == 1


def test_a_paused_queue_is_not_looked_at(watched: Watched) -> None:
    """Not even past what a circuit holds, of which there may be any number."""
    wanted = wish(5, (WholeKind("shell"),))
    at_once(watched.world.add_all(*[submission() for _ in range(500)]))
    looking = watched.steps(watched.store.claim(wanted))
    at_once(watched.store.pause(True, actor="user"))
    assert watched.steps(watched.store.claim(wanted)) < 500 < looking


def test_adding_looks_up_ids_and_keys(watched: Watched) -> None:
    known = at_once(watched.store.find(TaskQuery()))[0].id
    plans = watched.plans(watched.world.add_all(submission(key="key", dependencies=(known,))))
    assert_cheap(plans, "tasks_by_key", "(id=?)")


@pytest.mark.parametrize("verdict", [Complete(), Fail(FAILURE, "failed")], ids=["good", "bad"])
def test_finishing_touches_only_what_it_ends(watched: Watched, verdict: Any) -> None:
    (lease,) = at_once(watched.store.claim(wish()))
    report = Report(
        task_id=lease.task.id, token=lease.token, ending=Exited(0), ended_at=0, verdict=verdict
    )
    assert_cheap(watched.plans(watched.store.finish(report)))


@pytest.mark.parametrize("verb", ["cancel", "get", "record"])
def test_one_task_is_found_by_its_id(watched: Watched, verb: str) -> None:
    known = at_once(watched.store.find(TaskQuery()))[0].id
    options = {"actor": "user"} if verb == "cancel" else {}
    assert_cheap(watched.plans(getattr(watched.store, verb)(known, **options)), "(id=?)")


def test_a_prefix_is_a_range_of_ids(watched: Watched) -> None:
    known = at_once(watched.store.find(TaskQuery()))[0].id
    plans = watched.plans(watched.store.resolve(known[:-1]))
    assert_cheap(
        plans, "tasks_1 (id>? AND id<?)", "SEARCH archive USING PRIMARY KEY (id>? AND id<?)"
    )
    assert_unsorted(plans)


LISTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "all": ({}, ""),
    "status": ({"statuses": (Status.PENDING,)}, "tasks_by_status (status=?)"),
    "priority": ({"priority": Priority.LOW}, "tasks_by_priority (priority=?)"),
    "workstream": ({"workstream_id": "docs"}, "tasks_by_workstream (workstream_id=?)"),
    "by priority": ({"sort": Sort("priority")}, "tasks_by_priority"),
    "by status": ({"sort": Sort("status")}, "tasks_by_status (status=?)"),
}


@pytest.mark.parametrize("listing", LISTINGS)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_listing_reads_no_more_than_it_shows(
    watched: Watched, listing: str, reverse: bool
) -> None:
    filters, index = LISTINGS[listing]
    sort = Sort(filters.get("sort", Sort()).by, reverse)
    query = TaskQuery(**filters | {"sort": sort, "limit": 5})
    plans = watched.plans(watched.store.find(query))
    assert_unsorted(plans)
    if index:
        assert all(index in step for step in plans), plans
    else:
        # In the order of arrival, which is that of the table: it ends at the limit.
        assert plans == ["SCAN tasks"]


def test_counting_looks_only_at_the_first_ready_task_of_each_level(watched: Watched) -> None:
    plans = watched.plans(watched.store.counts())
    assert_cheap(plans)
    assert [step for step in plans if " tasks" in step] == [
        "SEARCH tasks USING INDEX tasks_ready (priority=?)"
    ]


def test_the_feed_of_moves_goes_on_from_its_place(watched: Watched) -> None:
    plans = watched.plans(watched.store.moves(3, PLENTY))
    assert_cheap(plans, "SEARCH history USING INTEGER PRIMARY KEY (rowid>?)")
    assert_unsorted(plans)


@pytest.mark.parametrize("what", ["wishes", "leases"])
def test_what_runs_is_found_without_the_rest(watched: Watched, what: str) -> None:
    plans = watched.plans(getattr(watched.store, what)())
    assert_unsorted(plans)
    index = {"wishes": "tasks_to_cancel", "leases": "tasks_by_status"}[what]
    assert all(index in step for step in plans)


@pytest.mark.parametrize("query", ["lease_one", "complete_one"])
def test_a_status_is_checked_without_a_table_in_memory(watched: Watched, query: str) -> None:
    """SQLite makes one for a CHECK with IN, again for every row that is written."""
    sql = QUERIES.sql(query)
    program = watched.connection.execute(f"EXPLAIN {sql}", (None,) * sql.count("?"))
    made = [row[5] for row in program if row[1] == "OpenEphemeral"]
    assert [keys for keys in made if keys] == []
