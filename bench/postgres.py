"""How quick is a queue in PostgreSQL beside Procrastinate and PgQueuer, on the same server?

Claim and complete: two worker processes drain a queue that was filled and vacuumed beforehand, from
the first task that begins until both are done; each turn has a database of its own, because some
keep what is done and others throw it away. Latency: one worker process is idle, another process
submits. The server keeps what it acknowledges on disk.
Claim cost: the time inside the server's transaction, without the commit, at growing sizes.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from statistics import median
from typing import Any

import psycopg

from acode.ids import new_id
from acode.model.task import Submission, TaskSpec
from acode.store.base import Claim
from acode.store.postgres import PostgresStore
from acode.store.sql.claims import claim
from acode.store.sql.transaction import Transaction
from bench.filled import Shelf
from bench.report import Line, Pair, at_least, at_most, duration
from bench.rounds import Rounds, Scale, seconds
from tests.postgres.server import Server

OURS, PROCRASTINATE, PGQUEUER = "acode", "Procrastinate", "PgQueuer"
NAMES = (OURS, PROCRASTINATE, PGQUEUER)
PROCESSES = 2
BATCH = 1000
LEAST_TASKS = 10_000
"""With fewer, what a process does once in its life would count."""
SLOW = 10
"""Procrastinate takes so many times longer, and gets so many times fewer."""
SAMPLES = 200
CLAIMS = 40
SIZES = (1_000, 100_000, 1_000_000)
GOAL = 1.2
QUEUE_SIZE = 10_000_000

FILL = """
TRUNCATE acode.tasks, acode.history, acode.tallies RESTART IDENTITY;
INSERT INTO acode.tasks (id, status, priority, kind, created_at, ready_at, spec)
SELECT '01' || lpad(n::text, 24, '0'), 'pending', mod(n, 4), 'shell', 1, n, '{"command":"true"}'
FROM generate_series(1, %d) AS n;
INSERT INTO acode.history (task, was, became, at, actor, reason)
SELECT seq, NULL, 'pending', created_at, 'bench', 'added' FROM acode.tasks;
INSERT INTO acode.tallies (shard, status, priority, n)
SELECT 0, status, priority, count(*) FROM acode.tasks GROUP BY status, priority
"""


def measure(_shelf: Shelf, scale: Scale) -> Iterator[Line]:
    """Rates, then latency, then the cost of a claim by size."""
    server = Server(durable=True).start()
    try:
        url = server.database("bench")
        asyncio.run(_prepare(url))
        yield from _rates(server, scale)
        yield from _latencies(url, scale)
        yield from _claims(server, scale)
    finally:
        server.remove()


async def _prepare(url: str) -> None:
    """Everybody's tables, in one database."""
    import asyncpg
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.queries import Queries

    from bench.procrastinate_app import app

    await PostgresStore.open(url, grouped=False).close()
    async with app(url) as one:
        await one.schema_manager.apply_schema_async()
    connection = await asyncpg.connect(url)
    await Queries(AsyncpgDriver(connection)).install()
    await connection.close()


# Filling.


async def _fill_ours(url: str, tasks: int) -> None:
    store = PostgresStore.open(url)
    for _ in range(tasks // BATCH):
        batch = [
            Submission(new_id(store.clock.now()), TaskSpec(command="true")) for _ in range(BATCH)
        ]
        await store.add(batch, actor="bench", queue_size=QUEUE_SIZE)
    await store.close()


async def _fill_procrastinate(url: str, tasks: int) -> None:
    from bench.procrastinate_app import app

    async with app(url) as one:
        for _ in range(tasks // BATCH):
            await one.configure_task("noop").batch_defer_async(*[{} for _ in range(BATCH)])


async def _fill_pgqueuer(url: str, tasks: int) -> None:
    import asyncpg
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.queries import Queries

    connection = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(connection))
    for _ in range(tasks // BATCH):
        await queries.enqueue(["noop"] * BATCH, [None] * BATCH, [0] * BATCH)
    await connection.close()


FILLS: dict[str, Callable[[str, int], Any]] = {
    OURS: _fill_ours,
    PROCRASTINATE: _fill_procrastinate,
    PGQUEUER: _fill_pgqueuer,
}


# Claim and complete.


def _rates(server: Server, scale: Scale) -> Iterator[Line]:
    tasks = max(LEAST_TASKS, scale.tasks)

    def turn(name: str) -> Callable[[], float]:
        return lambda: _drain(name, server, tasks // SLOW if name == PROCRASTINATE else tasks)

    rates = Rounds({name: turn(name) for name in NAMES}, scale.rounds)
    faster = max(NAMES[1:], key=rates.median)
    for name in NAMES[1:]:
        goal = 1.5 if name == faster else None
        case = f"claim and complete, {PROCESSES} processes"
        yield at_least(case, Pair(rates, OURS, name), goal)


def _drain(name: str, server: Server, tasks: int) -> float:
    url = server.database("turn")
    asyncio.run(_prepare(url))
    asyncio.run(FILLS[name](url, tasks))
    try:
        return _drained(name, url, tasks)
    finally:
        server.execute("DROP DATABASE turn WITH (FORCE)")


def _drained(name: str, url: str, tasks: int) -> float:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    with ExitStack() as stack:
        workers = [stack.enter_context(_worker(name, "drain", url)) for _ in range(PROCESSES)]
        for worker in workers:
            _tell(worker, "go")
        spans = [tuple(map(int, _heard(worker).split())) for worker in workers]
        return tasks * 1e9 / (max(end for _, end in spans) - min(begin for begin, _ in spans))


@contextmanager
def _worker(name: str, role: str, url: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "bench.on_postgres", name, role, url]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, **pipes) as process:
        try:
            _expect(process, "ready")
            yield process
        finally:
            process.kill()


def _tell(process: "subprocess.Popen[str]", word: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()


def _expect(process: "subprocess.Popen[str]", word: str) -> None:
    said = _heard(process)
    if said != word:
        raise RuntimeError(f"{process.args} said {said!r} instead of {word!r}")


def _heard(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


# From submit to start.


Submit = Callable[[], Awaitable[object]]


@asynccontextmanager
async def _submit_ours(url: str) -> AsyncIterator[Submit]:
    store = PostgresStore.open(url)
    spec = TaskSpec(command="bench-noop", type="python", metadata={"arguments": []})

    async def submit() -> None:
        one = Submission(new_id(store.clock.now()), spec)
        await store.add([one], actor="bench", queue_size=QUEUE_SIZE)

    yield submit
    await store.close()


@asynccontextmanager
async def _submit_procrastinate(url: str) -> AsyncIterator[Submit]:
    from bench.procrastinate_app import app

    async with app(url) as one:
        yield lambda: one.configure_task("noop").defer_async()


@asynccontextmanager
async def _submit_pgqueuer(url: str) -> AsyncIterator[Submit]:
    import asyncpg
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.queries import Queries

    connection = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(connection))
    yield lambda: queries.enqueue("noop", None)
    await connection.close()


SUBMITTERS: dict[str, Callable[[str], AbstractAsyncContextManager[Submit]]] = {
    OURS: _submit_ours,
    PROCRASTINATE: _submit_procrastinate,
    PGQUEUER: _submit_pgqueuer,
}


def _latencies(url: str, scale: Scale) -> Iterator[Line]:
    samples = asyncio.run(_sampled(url, SAMPLES if scale.rounds > 2 else SAMPLES // 2))
    for rank, label in ((0.5, "p50"), (0.99, "p99")):
        ours = _percentile(samples[OURS], rank)
        for name in NAMES[1:]:
            theirs = _percentile(samples[name], rank)
            beside = f"{name}: {duration(theirs)}"
            line = Line(f"submit to start, idle, {label}", duration(ours), beside, ours / theirs)
            goal = {"goal": "< 1x", "met": ours < theirs} if label == "p50" else {}
            yield line._replace(**goal)  # type: ignore[arg-type]


async def _sampled(url: str, count: int) -> dict[str, list[float]]:
    samples: dict[str, list[float]] = {name: [] for name in NAMES}
    async with AsyncExitStack() as stack:
        workers = {name: stack.enter_context(_worker(name, "serve", url)) for name in NAMES}
        submits = {name: await stack.enter_async_context(SUBMITTERS[name](url)) for name in NAMES}
        for _ in range(count + 5):
            for name in NAMES:
                begin = time.monotonic_ns()
                await submits[name]()
                began = int(await asyncio.to_thread(_heard, workers[name]))
                samples[name].append((began - begin) / 1e9)
                await asyncio.sleep(0.02)  # until it is idle again
    return {name: values[5:] for name, values in samples.items()}


def _percentile(values: list[float], rank: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * rank))]


# What a claim costs.


def _claims(server: Server, scale: Scale) -> Iterator[Line]:
    sizes = [size for size in SIZES if size <= max(scale.rows, SIZES[1])]
    turns = {f"{size:,}": _claiming(server, size) for size in sizes}
    costs = Rounds(turns, scale.rounds)
    small, *larger = turns
    for size in larger:
        yield at_most(f"claim, {size} pending", Pair(costs, size, small), GOAL)
    for size in larger:
        yield _counting(server, int(size.replace(",", "")), small)


def _claiming(server: Server, size: int) -> Callable[[], float]:
    """The median cost of a claim, each rolled back so that nothing changes."""
    url = server.database(f"rows_{size}")
    book = PostgresStore.open(url, grouped=False)._book
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute((FILL % size).encode())
        connection.execute("VACUUM ANALYZE acode.tasks")
    wanted = Claim(1, lambda tasks: ["worker"] * len(tasks))

    def one() -> float:
        wire = book.line().wire
        with wire.train():
            wire.execute("BEGIN")
            tx, _ = book.begun(wire, "begun")
            spent = seconds(lambda: _claim(tx, wanted))
            wire.execute("ROLLBACK")
        return spent

    return lambda: median(one() for _ in range(CLAIMS))


def _claim(tx: Transaction, wanted: Claim) -> None:
    claim(tx, [wanted])
    tx.value("waiting")  # whose answer comes behind that to the lease


def _counting(server: Server, size: int, small: str) -> Line:
    few = PostgresStore.open(server.database(f"rows_{small.replace(',', '')}"), grouped=False)
    many = PostgresStore.open(server.database(f"rows_{size}"), grouped=False)

    def cost(store: PostgresStore) -> Callable[[], float]:
        return lambda: median(seconds(lambda: asyncio.run(store.counts())) for _ in range(CLAIMS))

    rounds = Rounds({small: cost(few), f"{size:,}": cost(many)}, 5)
    return at_most(f"counts, {size:,} rows", Pair(rounds, f"{size:,}", small), GOAL)
