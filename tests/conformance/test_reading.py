"""Reading: ids by their beginning, listings, the feed of moves, counts."""

from typing import Any

import pytest

from acode.errors import AmbiguousId, TaskNotFound
from acode.ids import encode
from acode.model.priority import Priority
from acode.model.state import Status
from acode.store.base import BY_STATUS, Sort, TaskQuery
from tests.conformance.kit import PLENTY, World, submission

HIGH, MEDIUM, LOW, BACKGROUND = Priority
ONE, TWO = "01HF7YAT00AAAAAAAAAAAAAAAA", "01HF7YAT00BBBBBBBBBBBBBBBB"


# Ids


async def test_a_unique_beginning_is_enough(world: World) -> None:
    await world.add_all(submission(id=ONE), submission(id=TWO))
    for text in (ONE, ONE[:11], ONE[:11].lower(), f" {ONE} ", f"worker-{ONE[:11]}"):
        assert await world.store.resolve(text) == ONE


async def test_a_beginning_that_several_have_is_ambiguous(world: World) -> None:
    await world.add_all(submission(id=ONE), submission(id=TWO))
    for text in ("0", ONE[:10]):
        with pytest.raises(AmbiguousId, match=f"begins with {text}"):
            await world.store.resolve(text)


@pytest.mark.parametrize(
    "text", ["", " ", "nonsense!", "01HF%", "0_", ONE + "A", "🦀", "1", "Z" * 26]
)
async def test_what_nobody_has_is_not_found(world: World, text: str) -> None:
    await world.add(id=ONE)
    with pytest.raises(TaskNotFound):
        await world.store.resolve(text)


async def test_the_last_possible_id_is_found(world: World) -> None:
    last = "7" + "Z" * 25
    await world.add(id=last)
    assert await world.store.resolve("7ZZ") == last


@pytest.mark.parametrize("method", ["get", "record"])
async def test_only_a_whole_id_gets_a_task(world: World, method: str) -> None:
    await world.add(id=ONE)
    with pytest.raises(TaskNotFound, match=ONE[:11]):
        await getattr(world.store, method)(ONE[:11])


# Listings


async def one_of_each(world: World) -> dict[str, str]:
    """Tasks of every status, spread over priorities and workstreams; titles by id."""
    plan = [
        (Status.COMPLETED, LOW, "docs"),
        (Status.FAILED, HIGH, None),
        (Status.CANCELLED, MEDIUM, "code"),
        (Status.RUNNING, HIGH, "docs"),
        (Status.COMPLETED, MEDIUM, None),
        (Status.RUNNING, BACKGROUND, "code"),
        (Status.BLOCKED, HIGH, "docs"),
        (Status.PENDING, BACKGROUND, "docs"),
        (Status.PENDING, HIGH, "code"),
    ]
    return {
        await world.make(status, priority=priority, workstream_id=stream, title=str(number)): str(
            number
        )
        for number, (status, priority, stream) in enumerate(plan)
    }


async def listed(world: World, **query: Any) -> list[str]:
    titles = [task.spec.title for task in await world.store.find(TaskQuery(**query))]
    return [title for title in titles if title is not None]


async def expected(world: World, **query: Any) -> list[str]:
    """The same by hand, from the whole listing."""
    wanted = TaskQuery(**query)
    everything = await world.store.find(TaskQuery(limit=PLENTY))
    fitting = [
        (place, task)
        for place, task in enumerate(everything)
        if (not wanted.statuses or task.status in wanted.statuses)
        and wanted.priority in (None, task.spec.priority)
        and wanted.workstream_id in (None, task.spec.workstream_id)
    ]
    keys = {
        "created": lambda one: one[0],
        "priority": lambda one: (one[1].spec.priority.level, one[0]),
        "status": lambda one: (BY_STATUS.index(one[1].status), one[0]),
    }
    fitting.sort(key=keys[wanted.sort.by], reverse=wanted.sort.reverse)
    window = fitting[wanted.offset : wanted.offset + wanted.limit]
    return [task.spec.title for _, task in window if task.spec.title is not None]


FILTERS: list[dict[str, Any]] = [
    {},
    *({"statuses": (status,)} for status in Status),
    {"statuses": (Status.PENDING, Status.RUNNING, Status.FAILED)},
    *({"priority": priority} for priority in Priority),
    {"workstream_id": "docs"},
    {"workstream_id": "nobody"},
    {"statuses": (Status.RUNNING, Status.PENDING), "priority": HIGH},
    {"statuses": (Status.PENDING,), "priority": HIGH, "workstream_id": "code"},
    {"priority": HIGH, "workstream_id": "docs"},
]
WINDOWS = [{}, {"limit": 3}, {"limit": 2, "offset": 1}, {"limit": 5, "offset": 4}, {"limit": 0}]


@pytest.mark.parametrize("by", ["created", "priority", "status"])
async def test_every_filter_goes_with_every_order_and_window(world: World, by: str) -> None:
    await one_of_each(world)
    for filters in FILTERS:
        for window in [*WINDOWS, {"offset": 100}]:
            for reverse in (False, True):
                query = {**filters, **window, "sort": Sort(by, reverse)}
                assert await listed(world, **query) == await expected(world, **query), query


async def test_a_listing_shows_the_whole_task_in_the_order_of_arrival(world: World) -> None:
    titles = await one_of_each(world)
    tasks = await world.store.find(TaskQuery(limit=PLENTY))
    assert [task.spec.title for task in tasks if task.spec.title] == list(titles.values())
    for task in tasks:
        assert task == await world.store.get(task.id)


async def test_a_listing_has_fifty_rows_unless_more_are_asked_for(world: World) -> None:
    await world.add_all(*[submission() for _ in range(60)])
    assert len(await world.store.find(TaskQuery())) == 50


@pytest.mark.parametrize("by", ["created", "priority", "status"])
async def test_pages_join_without_gap_or_overlap(world: World, by: str) -> None:
    await one_of_each(world)
    whole = await world.store.find(TaskQuery(limit=PLENTY, sort=Sort(by)))
    pages = [
        await world.store.find(TaskQuery(limit=4, offset=offset, sort=Sort(by)))
        for offset in range(0, len(whole), 4)
    ]
    assert [task for page in pages for task in page] == whole


async def test_strange_words_are_only_words(world: World) -> None:
    words = ["' OR 1=1 --", "%", "_", "🦀", "a\nb", ":limit", "{where}"]
    for word in words:
        await world.add(workstream_id=word, key=word, title=word)
    for word in words:
        assert await listed(world, workstream_id=word) == [word]
        assert (await world.add_all(submission(key=word)))[0].existed


# Moves


async def test_the_feed_of_moves_has_no_gap_and_goes_on_from_any_place(world: World) -> None:
    await one_of_each(world)
    feed = await world.store.moves(0)
    assert [move.seq for move in feed] == list(range(1, len(feed) + 1))
    records = await world.everything()
    told = sorted((m for record in records for m in record.history), key=lambda move: move.seq)
    assert feed == told
    for since in range(len(feed) + 1):
        assert await world.store.moves(since) == feed[since:]
        assert await world.store.moves(since, limit=2) == feed[since : since + 2]


async def test_moves_of_one_claim_are_told_in_its_order(world: World) -> None:
    """The most urgent first, and not in the order in which the tasks came."""
    urgencies = [BACKGROUND, LOW, MEDIUM, HIGH] * 5
    await world.add_all(*[submission(priority=each) for each in urgencies])
    leases = await world.claim(len(urgencies))
    claimed = [lease.task.id for lease in leases]
    moves = await world.store.moves(len(urgencies))
    assert [move.task_id for move in moves] == claimed


async def test_a_refusal_leaves_no_gap_in_the_feed(world: World) -> None:
    task_id = await world.add()
    for _ in range(3):
        with pytest.raises(TaskNotFound):
            await world.add_all(submission(), submission(dependencies=(encode(3),)))
    await world.store.cancel(task_id, actor="user")
    assert [move.seq for move in await world.store.moves(0)] == [1, 2]


async def test_numbers_of_moves_are_never_used_twice(world: World) -> None:
    await world.make(Status.COMPLETED)
    last = (await world.store.moves(0))[-1].seq
    await world.store.tidy(finished_before=world.clock.now() + 1, steps_before=0)
    await world.add()
    assert [move.seq for move in await world.store.moves(0)] == [last + 1]


# Counts


async def test_an_empty_store_counts_nothing(world: World) -> None:
    counts = await world.store.counts()
    assert counts.by_status == dict.fromkeys(Status, 0)
    assert counts.pending_by_priority == dict.fromkeys(Priority, 0)
    assert (counts.waiting, counts.paused, counts.oldest_ready_at) == (0, False, None)


async def test_counts_are_the_sum_of_what_is_there(world: World) -> None:
    await one_of_each(world)
    counts = await world.store.counts()
    assert counts.by_status == {
        Status.PENDING: 3,
        Status.BLOCKED: 1,
        Status.RUNNING: 2,
        Status.COMPLETED: 2,
        Status.FAILED: 1,
        Status.CANCELLED: 1,
    }
    assert counts.pending_by_priority == {HIGH: 1, MEDIUM: 1, LOW: 0, BACKGROUND: 1}
    assert counts.waiting == 4


async def test_the_oldest_ready_one_may_have_any_priority(world: World) -> None:
    await world.add(delay_seconds=1)
    await world.add(priority=LOW)
    world.clock.advance(5)
    await world.add(priority=HIGH)
    assert (await world.store.counts()).oldest_ready_at == world.clock.now() - 5
    await world.order()
    assert (await world.store.counts()).oldest_ready_at == world.clock.now() + 995


async def test_a_text_is_looked_for_where_people_look(world: World) -> None:
    await world.add_all(
        submission(id=ONE, title='Build 100% of "it"', command="make", args=("all", "a_b")),
        submission(id=TWO, command="echo hello\nworld", workstream_id="docs"),
    )

    async def found(text: str) -> list[str]:
        return [task.id for task in await world.store.find(TaskQuery(text=text))]

    for text in ("build", "100%", '"it"', "MAKE", "a_b", "al", ONE[:11].lower()):
        assert await found(text) == [ONE], text
    for text in ("hello\nw", "HELLO", "doc", TWO):
        assert await found(text) == [TWO], text
    for text in ("shell", "command", "1_0", "aXb", "%", "\\", "title"):
        assert await found(text) == ([ONE] if text == "%" else []), text


async def test_the_newest_move_is_known(world: World) -> None:
    assert await world.store.newest_move() == 0
    await world.add_all(submission(), submission())
    moves = await world.store.moves(0)
    assert await world.store.newest_move() == moves[-1].seq


async def test_added_tasks_are_counted(world: World) -> None:
    await world.add_all(submission(), submission())
    assert await world.store.arrivals(0, 2) == 2
    assert await world.store.arrivals(1, 2) == 1
    assert await world.store.arrivals(0, 1) == 1
