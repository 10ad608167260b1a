from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acode.model.state import Status
from acode.model.task import Task, TaskSpec
from acode.policy.dispatch import Affinity, IdleWorker, match

WORKSTREAMS = ("docs", "api", "web")
KINDS = ("shell", "script")

Circuit = tuple[str, str | None]


def task(workstream: str | None = None, kind: str = "shell") -> Task:
    spec = TaskSpec(command="true", type=kind, workstream_id=workstream)
    return Task(id="task", spec=spec, status=Status.PENDING, created_at=0, ready_at=0)


def circuit_of(one: Task) -> Circuit:
    return one.spec.kind, one.spec.workstream_id


def idle(*names: str) -> list[IdleWorker]:
    return [IdleWorker(name) for name in names]


def given_to(
    tasks: Sequence[Task],
    workers: Sequence[IdleWorker],
    affinity: Mapping[str, str] | None = None,
    allowances: Mapping[Any, int] | None = None,
) -> list[str | None]:
    return match(tasks, workers, affinity or {}, allowances or {})


# Whom a task goes to


@pytest.mark.req("forge-04")
def test_a_workstream_goes_to_the_worker_that_ran_it_last_however_loaded() -> None:
    workers = [IdleWorker("a"), IdleWorker("b", load=99, last_used=99)]
    assert given_to([task("docs")], workers, {"docs": "b"}) == ["b"]


@pytest.mark.req("forge-04")
def test_a_workstream_whose_worker_is_not_idle_goes_to_another() -> None:
    assert given_to([task("docs")], idle("a", "b"), {"docs": "gone"}) == ["a"]


@pytest.mark.req("forge-04")
def test_of_two_tasks_of_one_workstream_the_more_urgent_gets_its_worker() -> None:
    tasks = [task("docs"), task("docs")]
    assert given_to(tasks, idle("a", "b"), {"docs": "b"}) == ["b", "a"]


@pytest.mark.req("forge-04")
def test_a_more_urgent_task_leaves_the_worker_that_another_one_wants() -> None:
    workers = [IdleWorker("a"), IdleWorker("b", load=9)]
    assert given_to([task(), task("docs")], workers, {"docs": "a"}) == ["b", "a"]


@pytest.mark.req("forge-04")
def test_a_worker_wanted_by_a_task_that_may_not_start_yet_is_kept_while_there_is_another() -> None:
    tasks = [task("docs"), task()]
    held = {("shell", "docs"): 0}
    workers = [IdleWorker("a"), IdleWorker("b", load=9)]
    assert given_to(tasks, workers, {"docs": "a"}, held) == [None, "b"]
    assert given_to(tasks, idle("a"), {"docs": "a"}, held) == [None, "a"]


def test_urgency_comes_before_affinity() -> None:
    assert given_to([task(), task("docs")], idle("a"), {"docs": "a"}) == ["a", None]


def test_tasks_without_a_workstream_share_no_worker() -> None:
    workers = [IdleWorker("a", load=1), IdleWorker("b")]
    assert given_to([task(None)], workers, {"None": "a", "": "a"}) == ["b"]


@pytest.mark.req("forge-05")
def test_the_least_loaded_worker_comes_first() -> None:
    workers = [IdleWorker("a", 3, 1), IdleWorker("b", 1, 3), IdleWorker("c", 2, 2)]
    assert given_to([task(), task(), task()], workers) == ["b", "c", "a"]


@pytest.mark.req("forge-03")
def test_of_workers_as_loaded_the_least_recently_used_comes_first() -> None:
    workers = [IdleWorker("a", 1, 30), IdleWorker("b", 1, 10), IdleWorker("c", 1, 20)]
    assert given_to([task(), task(), task()], workers) == ["b", "c", "a"]


def test_equals_are_taken_by_name_so_that_the_same_facts_give_the_same_answer() -> None:
    assert given_to([task(), task()], idle("b", "a")) == ["a", "b"]


# Who stays in the queue


@pytest.mark.parametrize(
    ("tasks", "workers", "assigned"), [(0, 0, 0), (0, 2, 0), (2, 0, 0), (3, 2, 2), (2, 3, 2)]
)
def test_tasks_without_a_worker_stay_in_the_queue(tasks: int, workers: int, assigned: int) -> None:
    answer = given_to([task()] * tasks, idle(*"abc"[:workers]))
    assert answer == [*"abc"[:assigned], *[None] * (tasks - assigned)]


def test_a_circuit_lets_only_so_many_start_and_the_others_go_on() -> None:
    tasks = [*[task("docs")] * 3, task("docs", "script"), task("api"), task()]
    answer = given_to(tasks, idle(*"abcdef"), allowances={("shell", "docs"): 2})
    assert [worker is not None for worker in answer] == [True, True, False, True, True, True]


@pytest.mark.parametrize("allowance", [0, -1])
def test_an_open_circuit_lets_nothing_start(allowance: int) -> None:
    answer = given_to([task(), task("docs")], idle("a", "b"), {}, {("shell", None): allowance})
    assert answer == [None, "a"]


def test_a_circuit_of_a_handler_is_that_of_its_name() -> None:
    spec = TaskSpec(command="summarise", type="python")
    handler = Task(id="task", spec=spec, status=Status.PENDING, created_at=0, ready_at=0)
    assert given_to([handler], idle("a"), {}, {("summarise", None): 0}) == [None]


def test_neither_the_workers_nor_the_allowances_are_used_up_by_asking() -> None:
    allowances = {("shell", None): 1}
    workers = idle("a", "b")
    first = given_to([task(), task()], workers, {}, allowances)
    assert first == given_to([task(), task()], workers, {}, allowances) == ["a", None]


# What always holds

TASKS = st.lists(
    st.builds(task, st.none() | st.sampled_from(WORKSTREAMS), st.sampled_from(KINDS)), max_size=12
)
WORKERS = st.lists(
    st.builds(IdleWorker, st.sampled_from("abcdefgh"), st.integers(0, 3), st.integers(0, 3)),
    max_size=8,
    unique_by=lambda worker: worker.id,
)
AFFINITY = st.dictionaries(st.sampled_from(WORKSTREAMS), st.sampled_from("abcdefghxyz"))
ALLOWANCES = st.dictionaries(
    st.tuples(st.sampled_from(KINDS), st.none() | st.sampled_from(WORKSTREAMS)),
    st.integers(-1, 4),
)


def anything(test: Callable[..., None]) -> Callable[..., None]:
    return given(TASKS, WORKERS, AFFINITY, ALLOWANCES)(test)


def admitted(tasks: Sequence[Task], allowances: Mapping[Circuit, int]) -> list[int]:
    """The places of the tasks that may start, counted in the plainest way."""
    return [
        place
        for place, one in enumerate(tasks)
        if [circuit_of(each) for each in tasks[:place]].count(circuit_of(one))
        < allowances.get(circuit_of(one), len(tasks))
    ]


@anything
def test_nobody_gets_two_tasks_and_everybody_who_gets_one_is_idle(
    tasks: list[Task],
    workers: list[IdleWorker],
    affinity: dict[str, str],
    allowances: dict[Circuit, int],
) -> None:
    answer = match(tasks, workers, affinity, allowances)
    assert len(answer) == len(tasks)
    taken = [worker for worker in answer if worker is not None]
    assert len(taken) == len(set(taken))
    assert set(taken) <= {worker.id for worker in workers}


@anything
def test_as_many_start_as_can_and_they_are_the_most_urgent(
    tasks: list[Task],
    workers: list[IdleWorker],
    affinity: dict[str, str],
    allowances: dict[Circuit, int],
) -> None:
    answer = match(tasks, workers, affinity, allowances)
    started = [place for place, worker in enumerate(answer) if worker is not None]
    assert started == admitted(tasks, allowances)[: len(workers)]


@pytest.mark.req("forge-04")
@anything
def test_a_task_misses_its_worker_only_if_another_of_those_that_want_it_has_it(
    tasks: list[Task],
    workers: list[IdleWorker],
    affinity: dict[str, str],
    allowances: dict[Circuit, int],
) -> None:
    answer = match(tasks, workers, affinity, allowances)
    home_of = [affinity.get(one.spec.workstream_id or "") for one in tasks]
    present = {worker.id for worker in workers}
    for place, worker in enumerate(answer):
        home = home_of[place]
        if worker is not None and home in present and worker != home:
            assert home_of[answer.index(home)] == home
            assert answer.index(home) < place


@pytest.mark.req("forge-03", "forge-05")
@anything
def test_strangers_take_the_workers_in_order_of_load_and_last_use(
    tasks: list[Task],
    workers: list[IdleWorker],
    affinity: dict[str, str],
    allowances: dict[Circuit, int],
) -> None:
    answer = match(tasks, workers, affinity, allowances)
    home_of = [affinity.get(one.spec.workstream_id or "") for one in tasks]
    by_id = {worker.id: worker for worker in workers}
    strangers = [
        by_id[worker]
        for worker, home in zip(answer, home_of, strict=True)
        if worker is not None and worker != home
    ]
    left = [worker for worker in workers if worker.id not in answer]
    ranks = [(one.id in home_of, one.load, one.last_used, one.id) for one in strangers]
    assert ranks == sorted(ranks)
    assert all(
        rank <= (one.id in home_of, one.load, one.last_used, one.id)
        for rank in ranks
        for one in left
    )


@anything
def test_the_order_in_which_the_workers_are_told_does_not_matter(
    tasks: list[Task],
    workers: list[IdleWorker],
    affinity: dict[str, str],
    allowances: dict[Circuit, int],
) -> None:
    answer = match(tasks, workers, affinity, allowances)
    assert match(tasks, workers[::-1], affinity, allowances) == answer


# Over many calls


class Pool:
    """Workers that are idle again after each call, and who ran what last."""

    def __init__(self, workers: int) -> None:
        self.workers = {f"worker-{n}": IdleWorker(f"worker-{n}") for n in range(workers)}
        self.affinity: dict[str, str] = {}
        self.calls = 0

    def run(self, tasks: Sequence[Task], idle: Sequence[str] | None = None) -> list[str]:
        self.calls += 1
        here = [self.workers[name] for name in idle or self.workers]
        answer = match(tasks, here, self.affinity, {})
        taken = [
            (one, worker) for one, worker in zip(tasks, answer, strict=True) if worker is not None
        ]
        for one, worker in taken:
            self._use(one, worker)
        return [worker for _, worker in taken]

    def _use(self, one: Task, worker: str) -> None:
        self.workers[worker] = IdleWorker(worker, self.workers[worker].load + 1, self.calls)
        if one.spec.workstream_id is not None:
            self.affinity[one.spec.workstream_id] = worker


@pytest.mark.req("forge-03")
def test_single_tasks_go_round() -> None:
    pool = Pool(3)
    used = [pool.run([task()])[0] for _ in range(6)]
    assert used == ["worker-0", "worker-1", "worker-2"] * 2


@pytest.mark.req("forge-03", "forge-05")
@given(st.integers(1, 8), st.lists(st.integers(0, 10), min_size=1, max_size=60))
def test_nobody_starves_and_nobody_is_overworked(workers: int, batches: list[int]) -> None:
    pool = Pool(workers)
    used: Counter[str] = Counter(dict.fromkeys(pool.workers, 0))
    for size in batches:
        used.update(pool.run([task()] * size))
        assert max(used.values()) - min(used.values()) <= 1


@pytest.mark.req("forge-03")
@given(st.data())
def test_who_is_idle_and_least_loaded_is_always_used(data: st.DataObject) -> None:
    pool = Pool(4)
    for _ in range(20):
        here = data.draw(st.lists(st.sampled_from(sorted(pool.workers)), min_size=1, unique=True))
        least = min((each.load, each.last_used) for each in map(pool.workers.__getitem__, here))
        before = dict(pool.workers)
        used = pool.run([task()], here)[0]
        assert (before[used].load, before[used].last_used) == least


@pytest.mark.req("forge-04")
@given(st.lists(st.lists(st.sampled_from(WORKSTREAMS), unique=True, max_size=3), max_size=30))
def test_workstreams_that_found_a_worker_each_keep_it(rounds: list[list[str]]) -> None:
    pool = Pool(5)
    pool.run([task(workstream) for workstream in WORKSTREAMS])
    at_first = dict(pool.affinity)
    assert len(set(at_first.values())) == len(WORKSTREAMS)
    for workstreams in rounds:
        pool.run([task(), *(task(workstream) for workstream in workstreams)])
        assert {one: pool.affinity[one] for one in workstreams} == {
            one: at_first[one] for one in workstreams
        }


def test_only_the_latest_workstreams_are_remembered() -> None:
    affinity = Affinity()
    for number in range(affinity.most + 5):
        affinity.remember(str(number % (affinity.most + 2)), "worker")
    affinity.remember("mine", "other")
    assert len(affinity) == affinity.most
    assert affinity["mine"] == "other"
    assert "2" in affinity  # it came again
    assert "5" not in affinity
