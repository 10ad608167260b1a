"""Finishing: what every verdict makes of a task."""

from collections.abc import Callable
from typing import Any

import pytest

from acode.errors import LeaseLost
from acode.model.ending import (
    Cancelled,
    Ending,
    Exited,
    Lost,
    NotStarted,
    OverLimit,
    Released,
    Signalled,
    TimedOut,
    Usage,
)
from acode.model.state import Status
from acode.model.task import DeadLetter, Lease, Push, Result
from acode.model.verdict import Cancel, Complete, Fail, Release, Report, RetryAt, Verdict
from acode.store.base import Circuit
from tests.conformance.kit import FAILURE, TIMEOUT, WORKER, World, report, wish

RESULT = Result(
    exit_code=0, branch="acode/x", patch="p", artifacts=("a", "b"), value={"ok": [1, None]}
)


async def test_a_completed_task_keeps_its_result(world: World) -> None:
    lease = await world.lease(await world.add())
    world.clock.advance(10)
    await world.finish(lease, Complete(RESULT))
    task = await world.store.get(lease.task.id)
    assert (task.status, task.result, task.error) == (Status.COMPLETED, RESULT, None)
    assert (task.completed_at, task.attempt_count) == (world.clock.now(), 1)
    assert (task.worker_id, task.started_at) == (WORKER, world.clock.now() - 10)
    assert await world.reasons(task.id) == ["added", "attempt 1", "completed"]


async def test_a_task_is_completed_when_its_command_ended_even_if_nobody_noticed(
    world: World,
) -> None:
    lease = await world.lease(await world.add())
    ended = world.clock.now() + 5
    world.clock.advance(3_600_000)
    await world.store.finish(report(lease, Complete(), ended))
    record = await world.store.record(lease.task.id)
    assert record.task.completed_at == record.attempts[0].ended_at == ended
    assert record.history[-1].at == world.clock.now()


ENDINGS: list[Ending] = [
    Exited(3),
    Signalled(9, oom=True),
    TimedOut(1.5),
    Cancelled(),
    OverLimit("memory", 512.0, 600.5, oom=True),
    Lost("worker died"),
    Released("drained"),
    NotStarted(FAILURE),
]


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: type(ending).__name__)
async def test_an_attempt_keeps_how_it_ended_and_what_it_used(world: World, ending: Ending) -> None:
    lease = await world.lease(await world.add())
    usage = Usage(cpu_seconds=1.25, max_memory_bytes=2**40)
    await world.store.finish(
        Report(
            task_id=lease.task.id,
            token=lease.token,
            ending=ending,
            ended_at=world.clock.now(),
            verdict=Fail(FAILURE, "so it is"),
            usage=usage,
            actor="somebody",
        )
    )
    record = await world.store.record(lease.task.id)
    (attempt,) = record.attempts
    assert (attempt.ending, attempt.usage, attempt.error) == (ending, usage, FAILURE)
    assert record.history[-1].actor == "somebody"


@pytest.mark.req("lld-17")
async def test_a_failed_task_becomes_a_dead_letter(world: World) -> None:
    task_id = await world.add(type="python", command="sync", metadata={"documentId": "doc-7"})
    first = await world.lease(task_id)
    await world.store.save_step(task_id, first.token, "fetch", {"pages": 3})
    world.clock.advance(1000)
    await world.requeue(first)
    failed_first = world.clock.now()
    second = await world.lease(task_id)
    world.clock.advance(1000)
    await world.finish(second, Fail(FAILURE, "no retries left", RESULT))
    task = await world.store.get(task_id)
    assert (task.status, task.error, task.result) == (Status.FAILED, FAILURE, RESULT)
    assert task.completed_at == world.clock.now()
    assert await world.store.dead_letters() == [
        DeadLetter(
            task_id=task_id,
            task_type="sync",
            document_id="doc-7",
            failure_reason="EXIT_CODE: exited with 1",
            attempt_count=2,
            first_failure=failed_first,
            last_failure=world.clock.now(),
            error_details=FAILURE,
            checkpoint={"fetch": {"pages": 3}},
        )
    ]


async def test_the_document_of_a_letter_is_its_workstream_where_no_other_is_named(
    world: World,
) -> None:
    for workstream in ("docs", None):
        lease = await world.lease(await world.add(workstream_id=workstream))
        await world.fail(lease)
    assert [letter.document_id for letter in await world.store.dead_letters()] == ["", "docs"]


async def test_dead_letters_come_newest_first_and_one_by_one(world: World) -> None:
    ids = [await world.make(Status.FAILED) for _ in range(3)]
    assert [letter.task_id for letter in await world.store.dead_letters()] == ids[::-1]
    (letter,) = await world.store.dead_letters(ids[1])
    assert letter.task_id == ids[1]
    assert await world.store.dead_letters(await world.add()) == []


@pytest.mark.req("lld-15")
async def test_every_failure_is_recorded_with_its_attempt_and_exhaustion_is_marked(
    world: World,
) -> None:
    task_id = await world.add(retry_limit=2)
    for _ in range(2):
        await world.requeue(await world.lease(task_id))
    await world.finish(await world.lease(task_id), Fail(FAILURE, "2 retries used up"))
    record = await world.store.record(task_id)
    errors = [(attempt.number, attempt.error) for attempt in record.attempts]
    assert errors == [(1, TIMEOUT), (2, TIMEOUT), (3, FAILURE)]
    assert [move.reason for move in record.history] == [
        "added",
        "attempt 1",
        "once more",
        "attempt 2",
        "once more",
        "attempt 3",
        "2 retries used up",
    ]
    assert record.task.status is Status.FAILED
    (letter,) = await world.store.dead_letters(task_id)
    assert (letter.attempt_count, letter.error_details) == (3, FAILURE)


async def test_a_retry_waits_for_its_time_and_keeps_the_error(world: World) -> None:
    task_id = await world.add()
    await world.requeue(await world.lease(task_id), after=500)
    task = await world.store.get(task_id)
    assert (task.status, task.error) == (Status.PENDING, TIMEOUT)
    assert (task.worker_id, task.started_at, task.completed_at) == (None, None, None)
    assert task.ready_at == world.clock.now() + 500
    world.clock.advance(499)
    assert await world.claim() == []
    world.clock.advance(1)
    assert (await world.lease(task_id)).number == 2


async def test_a_released_attempt_has_a_number_but_does_not_count(world: World) -> None:
    task_id = await world.add()
    await world.release(await world.lease(task_id))
    record = await world.store.record(task_id)
    assert record.task.status is Status.PENDING
    assert (record.task.attempt_count, record.task.last_attempt) == (0, 1)
    assert record.attempts[0].ending == Released("drained")
    lease = await world.lease(task_id)
    assert (lease.number, lease.task.attempt_count) == (2, 1)


async def test_a_release_keeps_the_error_of_the_attempt_before(world: World) -> None:
    task_id = await world.add()
    await world.requeue(await world.lease(task_id))
    await world.release(await world.lease(task_id))
    task = await world.store.get(task_id)
    assert (task.error, task.attempt_count, task.last_attempt) == (TIMEOUT, 1, 2)


async def test_success_forgets_the_error(world: World) -> None:
    task_id = await world.add()
    await world.requeue(await world.lease(task_id))
    await world.complete(await world.lease(task_id))
    assert (await world.store.get(task_id)).error is None


async def test_a_cancelled_task_is_marked(world: World) -> None:
    task_id = await world.add()
    lease = await world.lease(task_id)
    await world.store.cancel(task_id, actor="user")
    await world.finish(lease, Cancel("the user said so"), ending=Cancelled())
    record = await world.store.record(task_id)
    assert (record.task.status, record.task.cancel) == (Status.CANCELLED, None)
    assert record.task.completed_at == world.clock.now()
    assert record.attempts[0].ending == Cancelled()
    assert record.history[-1].reason == "the user said so"


RETRY = RetryAt(0, TIMEOUT, "once more")


@pytest.mark.parametrize(
    ("verdict", "status", "attempt_count"),
    [
        (Complete(), Status.COMPLETED, 1),
        (Fail(FAILURE, "failed"), Status.FAILED, 1),
        (Cancel(), Status.CANCELLED, 1),
        (RETRY, Status.CANCELLED, 1),
        (Release("drained"), Status.CANCELLED, 0),
    ],
    ids=lambda case: type(case).__name__,
)
async def test_a_cancel_wish_wins_over_another_try_but_not_over_an_end(
    world: World, verdict: Verdict, status: Status, attempt_count: int
) -> None:
    task_id = await world.add()
    lease = await world.lease(task_id)
    await world.store.cancel(task_id, actor="user")
    await world.finish(lease, verdict)
    task = await world.store.get(task_id)
    assert (task.status, task.cancel) == (status, None)
    assert (task.attempt_count, task.last_attempt) == (attempt_count, 1)
    assert await world.store.wishes() == []


# The next task in the same commit


async def test_finishing_can_claim_what_is_next(world: World) -> None:
    first, second = await world.add(), await world.add()
    lease = await world.lease(first)
    (following,) = await world.store.finish(report(lease, Complete(), 0), then=wish())
    assert following.task.id == second
    await world.complete(following)


async def test_what_is_held_is_not_next(world: World) -> None:
    first, _ = await world.add(), await world.add()
    lease = await world.lease(first)
    held = {Circuit("shell", None)}
    assert await world.store.finish(report(lease, Complete(), 0), then=wish(held=held)) == []


async def test_what_was_just_unblocked_can_be_next(world: World) -> None:
    need = await world.add()
    task_id = await world.add(dependencies=(need,))
    lease = await world.lease(need)
    (following,) = await world.store.finish(report(lease, Complete(), 0), then=wish())
    assert following.task.id == task_id


async def test_what_was_just_given_back_can_be_next(world: World) -> None:
    task_id = await world.add()
    lease = await world.lease(task_id)
    now = world.clock.now()
    (again,) = await world.store.finish(report(lease, Release("moved"), now), then=wish())
    assert (again.task.id, again.number) == (task_id, 2)
    assert again.token != lease.token


async def test_nothing_is_next_while_the_queue_is_paused(world: World) -> None:
    await world.add()
    await world.add()
    lease = await world.lease()
    await world.store.pause(True, actor="user")
    assert await world.store.finish(report(lease, Complete(), 0), then=wish()) == []
    assert await world.status(lease.task.id) is Status.COMPLETED


async def test_a_stale_report_claims_nothing(world: World, dump: Callable[[], Any]) -> None:
    task_id = await world.add()
    stale = await world.lease(task_id)
    await world.release(stale)
    before = dump()
    with pytest.raises(LeaseLost):
        await world.store.finish(report(stale, Complete(), 0), then=wish())
    assert dump() == before


# Tokens


def verdicts(now: int) -> list[Verdict]:
    return [
        Complete(RESULT),
        Fail(FAILURE, "failed"),
        RetryAt(now, TIMEOUT, "once more"),
        Cancel(),
        Release("drained"),
    ]


async def released(world: World, lease: Lease) -> None:
    """The task is pending again."""
    await world.release(lease)


async def taken_over(world: World, lease: Lease) -> None:
    """Another attempt runs."""
    await world.release(lease)
    await world.lease(lease.task.id)


async def done(world: World, lease: Lease) -> None:
    """The task is completed."""
    await world.complete(lease)


async def buried(world: World, lease: Lease) -> None:
    """The task is a dead letter."""
    await world.fail(lease)


async def blocked_again(world: World, lease: Lease) -> None:
    """The task waits for another one, after a retry."""
    await world.fail(lease)
    await world.store.retry(lease.task.id, actor="user")


async def archived(world: World, lease: Lease) -> None:
    """The task is out of the way."""
    await world.complete(lease)
    now = world.clock.now() + 1
    await world.store.tidy(finished_before=now, steps_before=now)


FATES = [released, taken_over, done, buried, blocked_again, archived]


@pytest.mark.parametrize("fate", FATES, ids=lambda fate: fate.__name__)
async def test_a_stale_token_changes_nothing_whatsoever(
    world: World, dump: Callable[[], Any], fate: Callable[[World, Lease], Any]
) -> None:
    stale = await world.lease(await world.add())
    await world.store.save_step(stale.task.id, stale.token, "kept", 1)
    await fate(world, stale)
    world.clock.advance(10)
    before = dump()
    for verdict in verdicts(world.clock.now()):
        with pytest.raises(LeaseLost):
            await world.finish(stale, verdict)
    for step in ("kept", "new"):
        with pytest.raises(LeaseLost):
            await world.store.save_step(stale.task.id, stale.token, step, 2)
    assert dump() == before


@pytest.mark.parametrize("token", ["", "0" * 32, "' OR 1"])
async def test_a_token_that_never_was_changes_nothing(
    world: World, dump: Callable[[], Any], token: str
) -> None:
    lease = await world.lease(await world.add())
    never = Lease(task=lease.task, number=1, token=token, worker_id=WORKER)
    before = dump()
    for verdict in verdicts(world.clock.now()):
        with pytest.raises(LeaseLost):
            await world.finish(never, verdict)
    with pytest.raises(LeaseLost):
        await world.store.save_step(lease.task.id, token, "step", 2)
    assert dump() == before


async def test_the_token_of_one_task_is_of_no_use_for_another(
    world: World, dump: Callable[[], Any]
) -> None:
    await world.add()
    await world.add()
    one, other = await world.claim(2)
    mixed = Lease(task=one.task, number=1, token=other.token, worker_id=WORKER)
    before = dump()
    for verdict in verdicts(world.clock.now()):
        with pytest.raises(LeaseLost):
            await world.finish(mixed, verdict)
    assert dump() == before


async def test_a_second_report_of_the_same_attempt_is_refused(world: World) -> None:
    lease = await world.lease(await world.add())
    await world.complete(lease)
    with pytest.raises(LeaseLost, match="is not current"):
        await world.complete(lease)


async def test_a_branch_that_reached_its_remote_later_is_noted(world: World) -> None:
    lease = await world.lease(await world.add())
    task_id = lease.task.id
    await world.store.pushed(task_id, 1, Push("origin"))
    assert (await world.store.get(task_id)).result is None, "it still runs"
    await world.finish(lease, Complete(Result(branch="b", push=Push("origin", "away"))))
    await world.store.pushed(task_id, 2, Push("origin"))
    task = await world.store.get(task_id)
    assert task.result == Result(branch="b", push=Push("origin", "away")), "no such attempt"
    await world.store.pushed(task_id, 1, Push("origin"))
    task = await world.store.get(task_id)
    assert task.result == Result(branch="b", push=Push("origin"))
    assert task.status is Status.COMPLETED
    assert await world.reasons(task_id) == ["added", "attempt 1", "completed"]
