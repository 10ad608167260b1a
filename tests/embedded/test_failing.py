"""What becomes of tasks that fail: classification, retries, dead letters, hooks, circuits."""

import asyncio
import sqlite3
from typing import Any

import pytest

import acode
from tests.embedded.conftest import Bench, note, until


class ServiceError(Exception):
    """An error of somebody's HTTP client."""

    def __init__(self, status_code: int, retry_after: float | None = None) -> None:
        super().__init__(status_code, retry_after)
        self.status_code = status_code
        self.retry_after = retry_after


ERRORS: dict[str, Any] = {
    "unclassified": lambda: ValueError("nobody knows"),
    "timeout": lambda: TimeoutError("no answer"),
    "rate limit": lambda: ServiceError(429, 0.01),
    "server": lambda: ServiceError(503),
    "unauthorised": lambda: ServiceError(401),
    "forbidden": lambda: ServiceError(403),
    "not found": lambda: ServiceError(404),
    "invalid": lambda: ServiceError(422),
    "transient": lambda: acode.TransientError("busy", retry_after=0.01),
    "permanent": lambda: acode.PermanentError("never"),
    "partial": lambda: acode.PartialError("half", failed_step="move", hint="look at the rest"),
}


@acode.handler("fail")
async def fail(ctx: acode.Context, path: str, kind: str, times: int = 1000) -> int:
    note(path, str(ctx.attempt))
    if ctx.attempt <= times:
        raise ERRORS[kind]()
    return ctx.attempt


@acode.handler("fail-in-a-thread")
def fail_in_a_thread(ctx: acode.SyncContext, path: str, kind: str) -> None:
    note(path, str(ctx.attempt))
    raise ERRORS[kind]()


@pytest.mark.req("lld-12")
async def test_a_transient_failure_is_tried_again_until_it_succeeds(bench: Bench) -> None:
    async with bench.pool() as pool:
        handle = await pool.submit(fail, bench.path("tries"), "transient", 2)
        assert await handle.result() == 3
        task = await pool.get(handle.id)
        assert task.attempt_count == 3
        assert [attempt.error and attempt.error.message for attempt in task.attempts] == [
            "busy",
            "busy",
            None,
        ]
        assert pool.stats().failed_tasks == 0


@pytest.mark.req("lld-12", "lld-15")
async def test_retries_run_out_and_every_failure_is_recorded(bench: Bench) -> None:
    async with bench.pool() as pool:
        for retries, attempts in ((None, 4), (0, 1), (2, 3)):
            handle = await pool.submit(fail, bench.path("x"), "server", retries=retries)
            with pytest.raises(acode.TaskFailed) as caught:
                await handle.result()
            assert isinstance(caught.value.__cause__, ServiceError)
            assert caught.value.__cause__.status_code == 503
            task = await pool.get(handle.id)
            assert task.attempt_count == attempts
            assert all(attempt.error is not None for attempt in task.attempts)
            assert f"retries exhausted after {attempts}" in task.history[-1].reason
        assert pool.stats().failed_tasks == 3


@pytest.mark.req("lld-13", "lld-14")
@pytest.mark.parametrize(
    ("kind", "category", "attempts"),
    [
        ("timeout", "transient", 4),
        ("rate limit", "transient", 4),
        ("server", "transient", 4),
        ("unauthorised", "permanent", 1),
        ("forbidden", "permanent", 1),
        ("not found", "permanent", 1),
        ("invalid", "permanent", 1),
        ("unclassified", "permanent", 1),
        ("permanent", "permanent", 1),
        ("partial", "partial", 4),
    ],
)
async def test_failures_are_classified(
    in_memory: Bench, kind: str, category: str, attempts: int
) -> None:
    async with in_memory.pool() as pool:
        for handler in (fail, fail_in_a_thread):
            handle = await pool.submit(handler, in_memory.path("x"), kind)
            with pytest.raises(acode.TaskFailed):
                await handle.result()
            task = await pool.get(handle.id)
            assert task.error is not None
            assert (task.error.category, task.attempt_count) == (category, attempts)


async def test_retries_are_given_to_what_is_unclassified_but_never_to_what_is_hopeless(
    in_memory: Bench,
) -> None:
    async with in_memory.pool() as pool:
        wanted = {"unclassified": 3, "permanent": 1, "forbidden": 1}
        for kind, attempts in wanted.items():
            handle = await pool.submit(fail, in_memory.path("x"), kind, retries=2)
            with pytest.raises(acode.TaskFailed):
                await handle.result()
            assert (await pool.get(handle.id)).attempt_count == attempts


@pytest.mark.req("lld-13")
async def test_a_failure_tells_the_step_the_hint_and_when_to_come_again(in_memory: Bench) -> None:
    async with in_memory.pool(retry=acode.Retry(initial_delay_ms=0)) as pool:
        handle = await pool.submit(fail, in_memory.path("x"), "partial", retries=0)
        with pytest.raises(acode.TaskFailed) as caught:
            await handle.result()
        failure = caught.value.failure
        assert (failure.failed_step, failure.hint) == ("move", "look at the rest")
        limited = await pool.submit(fail, in_memory.path("y"), "rate limit", 1)
        await limited.result()
        first, second = (await pool.get(limited.id)).attempts
        assert first.error is not None
        assert first.error.retry_after_ms == 10
        assert first.ended_at is not None
        assert second.started_at - first.ended_at >= 10


@pytest.mark.req("lld-12")
async def test_the_wait_before_a_retry_can_be_cancelled(in_memory: Bench) -> None:
    patient = acode.Retry(initial_delay_ms=3_600_000, max_delay_ms=3_600_000)
    async with in_memory.pool(retry=patient) as pool:
        handle = await pool.submit(fail, in_memory.path("tries"), "server")
        await until(lambda: in_memory.lines("tries") and not pool.stats().active_workers)
        await until(lambda: pool.stats().queued_tasks == 1)
        await pool.cancel(handle.id)
        with pytest.raises(acode.TaskCancelled):
            await handle.result()


@pytest.mark.req("lld-17")
async def test_a_dead_letter_is_listed_retried_and_gone(bench: Bench) -> None:
    async with bench.pool() as pool:
        handle = await pool.submit(
            fail, bench.path("x"), "server", 4, metadata={"documentId": "doc-7"}
        )
        other = await pool.submit(fail, bench.path("x"), "permanent")
        for one in (handle, other):
            with pytest.raises(acode.TaskFailed):
                await one.result()
        letters = {letter.task_id: letter for letter in await pool.dead_letters.list()}
        letter = letters[handle.id]
        assert (letter.task_type, letter.document_id, letter.attempt_count) == ("fail", "doc-7", 4)
        assert letter.error_details.category == "transient"
        assert letter.first_failure <= letter.last_failure
        again = await pool.dead_letters.retry(handle.id)
        assert await again.result() == 5
        await pool.dead_letters.drop(other.id)
        assert await pool.dead_letters.list() == []
        assert (await pool.get(other.id)).status == "cancelled"
        with pytest.raises(acode.AcodeError):
            await pool.dead_letters.retry(handle.id)


@pytest.mark.req("lld-17")
async def test_dead_letters_lie_in_the_documented_table(tmp_path: Any) -> None:
    path = f"{tmp_path}/queue.db"
    async with acode.Pool(store=f"sqlite:///{path}") as pool:
        handle = await pool.submit(
            fail, f"{tmp_path}/x", "permanent", metadata={"documentId": "doc-1"}
        )
        with pytest.raises(acode.TaskFailed):
            await handle.result()
    connection = sqlite3.connect(path)
    row = connection.execute(
        "SELECT task_id, task_type, document_id, failure_reason, attempt_count,"
        " first_failure <= last_failure, error_details IS NOT NULL FROM dead_letter_queue"
    ).fetchone()
    connection.close()
    assert row == (handle.id, "fail", "doc-1", "EXIT_CODE: never", 1, 1, 1)


async def _comment(task: acode.Task, error: acode.TaskFailed) -> None:
    note(task.args[0] + ".hook", f"{task.id} {type(error.__cause__).__name__}")


@acode.handler("fails-with-a-hook", on_failure=_comment)
async def fails_with_a_hook(ctx: acode.Context, path: str) -> None:
    await ctx.step("first", lambda: 1)
    raise acode.PermanentError("never")


@pytest.mark.req("lld-18")
async def test_a_hook_is_called_once_a_task_has_failed_for_good(bench: Bench) -> None:
    async with bench.pool() as pool:
        handle = await pool.submit(fails_with_a_hook, bench.path("x"))
        with pytest.raises(acode.TaskFailed):
            await handle.result()
        await until(lambda: bench.lines("x.hook"))
        if bench.kind.durable:
            connection = sqlite3.connect(bench.path("queue.db"))
            assert connection.execute("SELECT count(*) FROM checkpoints").fetchone() == (0,)
            connection.close()
    assert bench.lines("x.hook") == [f"{handle.id} PermanentError"]


@pytest.mark.req("lld-18")
async def test_a_hook_that_fails_only_warns(
    inline: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(task: acode.Task, error: acode.TaskFailed) -> None:
        raise RuntimeError("the hook is broken")

    async with inline.pool(on_failure=broken) as pool:
        handle = await pool.submit(fail, inline.path("x"), "permanent")
        with pytest.raises(acode.TaskFailed):
            await handle.result()
        await until(lambda: "the hook is broken" in caplog.text)
        assert await (await pool.submit(fail, inline.path("x"), "server", 0)).result() == 1
        assert (await pool.get(handle.id)).status == "failed"


@pytest.mark.req("lld-21")
async def test_a_circuit_opens_holds_tasks_probes_and_closes(in_memory: Bench) -> None:
    breaker = acode.Breaker(failure_threshold=3, recovery_timeout_ms=300, half_open_requests=1)
    async with in_memory.pool(workers=1, breaker=breaker) as pool:
        for _ in range(3):
            handle = await pool.submit(fail, in_memory.path("x"), "server", retries=0)
            with pytest.raises(acode.TaskFailed):
                await handle.result()
        held = await pool.submit(fail, in_memory.path("held"), "server", 0)
        other = await pool.submit("fail-in-a-thread", in_memory.path("other"), "permanent")
        with pytest.raises(acode.TaskFailed):
            await other.result()
        task = await pool.get(held.id)
        assert (task.status, task.attempt_count) == ("pending", 0), "it burns no attempt"
        assert not in_memory.lines("held")
        assert await held.result(timeout=60) == 1, "a probe succeeded and closed the circuit"
        after = [await pool.submit(fail, in_memory.path("x"), "server", 0) for _ in range(5)]
        assert [await handle.result() for handle in after] == [1] * 5


class Odd(Exception):
    """An exception that cannot be made again from its arguments."""

    def __init__(self, *, code: int) -> None:
        super().__init__(object())
        self.code = code


@acode.handler("fail-oddly")
def fail_oddly(ctx: acode.SyncContext) -> None:
    raise Odd(code=1)


@acode.handler("exit-politely")
async def exit_politely(ctx: acode.Context) -> None:
    raise SystemExit(3)


async def test_whatever_a_handler_raises_the_pool_goes_on(in_memory: Bench) -> None:
    async with in_memory.pool(workers=1) as pool:
        for handler in (fail_oddly, exit_politely):
            handle = await pool.submit(handler)
            with pytest.raises(acode.TaskFailed) as caught:
                await handle.result()
            assert caught.value.__cause__ is not None
        assert await (await pool.submit(fail, in_memory.path("x"), "server", 0)).result() == 1


async def test_the_cause_of_a_failure_in_a_process_shows_its_traceback(process: Bench) -> None:
    async with process.pool() as pool:
        handle = await pool.submit(fail, process.path("x"), "unclassified")
        with pytest.raises(acode.TaskFailed) as caught:
            await handle.result()
    cause = caught.value.__cause__
    assert isinstance(cause, ValueError)
    assert "in a handler process" in cause.__notes__[0]
    assert "test_failing.py" in cause.__notes__[0]


async def test_a_failed_task_tells_everybody_who_waits(in_memory: Bench) -> None:
    async with in_memory.pool() as pool:
        handle = await pool.submit(fail, in_memory.path("x"), "permanent")
        told = await asyncio.gather(handle.result(), handle.result(), return_exceptions=True)
        assert [type(error) for error in told] == [acode.TaskFailed] * 2
        with pytest.raises(acode.TaskFailed):
            await pool.handle(handle.id).result()
