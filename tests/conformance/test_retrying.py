"""The policy decides, the store keeps: a task from its first failure to its last."""

import pytest

from acode.model.ending import TimedOut
from acode.model.state import Status
from acode.model.task import Lease
from acode.model.verdict import RetryAt
from acode.policy.retry import Outcome, Retry, decide
from tests.conformance.kit import World

BACKOFF = Retry(jitter=0.0)


async def time_out(world: World, lease: Lease) -> int | None:
    """End the attempt as the policy says; how long the next one has to wait."""
    outcome = Outcome(
        ending=TimedOut(1.0),
        attempt_count=lease.task.attempt_count,
        retry_limit=lease.task.spec.retry_limit,
    )
    verdict = decide(outcome, BACKOFF, world.clock.now(), lambda: 0.5)
    await world.finish(lease, verdict, ending=outcome.ending)
    return verdict.ready_at - world.clock.now() if isinstance(verdict, RetryAt) else None


@pytest.mark.req("lld-12")
async def test_retries_wait_longer_each_time_and_are_limited(world: World) -> None:
    task_id = await world.add(retry_limit=3)
    waits = []
    while wait := await time_out(world, await world.lease(task_id)):
        waits.append(wait)
        world.clock.advance(wait - 1)
        assert await world.claim() == []
        world.clock.advance(1)
    assert waits == [1000, 2000, 4000]
    assert await world.status(task_id) is Status.FAILED
    assert (await world.store.get(task_id)).attempt_count == 4


@pytest.mark.req("lld-12")
async def test_the_wait_for_a_retry_can_be_cancelled(world: World) -> None:
    task_id = await world.add(retry_limit=3)
    assert await time_out(world, await world.lease(task_id)) == 1000
    await world.store.cancel(task_id, actor="user")
    assert await world.status(task_id) is Status.CANCELLED
    world.clock.advance(1000)
    assert await world.claim() == []
