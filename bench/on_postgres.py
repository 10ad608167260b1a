"""One worker process on a PostgreSQL queue: `python -m bench.on_postgres NAME ROLE URL`.

It says `ready`. To drain, it waits for a line, works until nothing is left, and says when its first
task began and when it was done. To serve, it says when each task began, until it is killed.
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

CONCURRENCY = 50
"""Tasks that a process has in hand at once."""


def _say(word: object) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


began: list[int] = []


def _noop() -> None:
    if ROLE == "serve":
        _say(time.monotonic_ns())
    elif not began:
        began.append(time.monotonic_ns())


async def _go() -> None:
    _say("ready")
    await asyncio.to_thread(sys.stdin.readline)


async def acode_drains(url: str) -> None:
    from acode.ids import new_id
    from acode.model.ending import Exited
    from acode.model.host import Host
    from acode.model.task import Lease, Task
    from acode.model.verdict import Complete, Report
    from acode.store.base import Claim
    from acode.store.postgres import PostgresStore

    def assign(tasks: Sequence[Task]) -> list[str]:
        return ["worker"] * len(tasks)

    store, host = PostgresStore.open(url), new_id(1)
    await store.join(Host(id=host, name="bench", boot_id="", pid=os.getpid()), 600_000)

    async def work(lease: Lease) -> None:
        following = [lease]
        while following:
            done = following[0]
            _noop()
            now = store.clock.now()
            ended = {"ending": Exited(0), "ended_at": now, "verdict": Complete()}
            report = Report(task_id=done.task.id, token=done.token, **ended)  # type: ignore[arg-type]
            following = await store.finish(report, Claim(1, assign, (), host))

    await _go()
    while leases := await store.claim(Claim(CONCURRENCY, assign, (), host)):
        await asyncio.gather(*map(work, leases))
    await store.leave(host)
    await store.close()


async def acode_serves(url: str) -> None:
    import acode

    @acode.handler("bench-noop")
    async def noop(_ctx: acode.Context) -> None:
        _noop()

    async with acode.Pool(store=url, workers=4):
        _say("ready")
        await asyncio.Event().wait()


async def procrastinate_works(url: str) -> None:
    from bench.procrastinate_app import app, defined

    defined["noop"] = _noop
    async with app(url) as one:
        if ROLE == "drain":
            await _go()
            await one.run_worker_async(concurrency=CONCURRENCY, wait=False)
        else:
            asyncio.get_running_loop().call_later(1, _say, "ready")
            await one.run_worker_async(concurrency=CONCURRENCY)


async def pgqueuer_works(url: str) -> None:
    import asyncpg
    from pgqueuer import QueueManager
    from pgqueuer.db import AsyncpgPoolDriver
    from pgqueuer.queries import Queries
    from pgqueuer.types import QueueExecutionMode

    async with asyncpg.create_pool(url, min_size=2, max_size=20) as pool:
        manager = QueueManager(Queries(AsyncpgPoolDriver(pool)))

        @manager.entrypoint("noop")
        async def noop(_job: Any) -> None:
            _noop()

        options: dict[str, Any] = {"batch_size": CONCURRENCY}
        if ROLE == "drain":
            await _go()
            await manager.run(mode=QueueExecutionMode.drain, **options)
        else:
            asyncio.get_running_loop().call_later(1, _say, "ready")
            await manager.run(dequeue_timeout=timedelta(seconds=5), batch_size=1)


WORKS: dict[tuple[str, str], Callable[[str], Awaitable[None]]] = {
    ("acode", "drain"): acode_drains,
    ("acode", "serve"): acode_serves,
    ("Procrastinate", "drain"): procrastinate_works,
    ("Procrastinate", "serve"): procrastinate_works,
    ("PgQueuer", "drain"): pgqueuer_works,
    ("PgQueuer", "serve"): pgqueuer_works,
}


async def main(name: str, role: str, url: str) -> None:
    await WORKS[name, role](url)
    done = time.monotonic_ns()
    _say(f"{began[0] if began else done} {done}")


if __name__ == "__main__":
    ROLE = sys.argv[2]
    asyncio.run(main(*sys.argv[1:4]))
