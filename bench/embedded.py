"""What does a pool inside a program cost, and how quick is it beside other queues?

Durable: 20,000 no-ops from submit to the last result, SQLite with fsync, four worker processes.
Peers get fewer, and Redis keeps nothing on disk for them. Inline: a store in memory beside a bare
asyncio.Queue with as many consumers, which keeps nothing at all; both are one busy thread, so
processor time is what counts.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from statistics import median
from typing import Any
from uuid import uuid4

import psutil

import acode
from bench.filled import Shelf
from bench.queues import PROCESSES, WARM, Peer, peers, processor_seconds
from bench.report import Line, Pair, at_least, at_most, duration
from bench.rounds import QUICK, Rounds, Scale, seconds

PEER_TASKS = 2000
CONSUMERS = 3
SAMPLES = 200
OURS, EXECUTOR, BARE = "ours", "ProcessPoolExecutor, keeps nothing", "asyncio.Queue"
BY_HAND = "asyncio.Queue; an id, a task and a timeout each"
BATCH = 1000


@acode.handler("bench-noop")
def noop(_ctx: acode.SyncContext) -> int:
    return time.monotonic_ns()


@acode.handler("bench-noop-inline")
async def noop_inline(_ctx: acode.Context) -> int:
    return time.monotonic_ns()


def measure(shelf: Shelf, scale: Scale) -> Iterator[Line]:
    """Throughput and latency beside peers, then the price of being inline, then memory."""
    with peers() as others:
        yield from _work(shelf, scale, others)
        yield from _throughput(shelf, scale, {name: p.drive for name, p in others.items()})
        yield from _latency(shelf, scale, {name: p.latency for name, p in others.items()})
    yield from _inline(scale)
    yield from _memory(shelf)


def _throughput(
    shelf: Shelf, scale: Scale, others: dict[str, Callable[[int], None]]
) -> Iterator[Line]:
    few = min(PEER_TASKS, scale.tasks)

    def rate(drive: Callable[[int], None], tasks: int) -> Callable[[], float]:
        return lambda: tasks / seconds(lambda: drive(tasks))

    turns = {OURS: lambda: _our_rate(shelf.fresh().root, scale.tasks)}
    turns |= {name: rate(drive, few) for name, drive in others.items()}
    turns[EXECUTOR] = rate(_executor, scale.tasks)
    rounds = Rounds(turns, scale.rounds)
    for name in (*others, EXECUTOR):
        goal = 3 if name in others else None
        yield at_least("durable no-ops, 4 processes", Pair(rounds, OURS, name), goal)


def _work(shelf: Shelf, scale: Scale, others: dict[str, Peer]) -> Iterator[Line]:
    """Processor time, which depends less than a rate on who else uses the machine."""

    def used(peer: Peer) -> float:
        before = processor_seconds(peer.pids)
        peer.drive(PEER_TASKS)
        return (processor_seconds(peer.pids) - before) / PEER_TASKS

    turns = {OURS: lambda: asyncio.run(_our_work(f"{shelf.fresh().root}/queue.db"))}
    turns |= {name: partial(used, peer) for name, peer in others.items()}
    rounds = Rounds(turns, scale.rounds)
    for name in others:
        yield at_most("processor time of a durable no-op, all processes", Pair(rounds, OURS, name))


async def _our_work(path: str) -> float:
    options: dict[str, Any] = {"workers": PROCESSES, "queue_size": PEER_TASKS}
    async with acode.Pool(store=f"sqlite:///{path}", isolation="process", **options) as pool:
        before = processor_seconds([os.getpid()])
        for handle in await pool.submit_many(noop, [()] * PEER_TASKS):
            await handle.result()
        return (processor_seconds([os.getpid()]) - before) / PEER_TASKS


def _our_rate(directory: str, tasks: int) -> float:
    return asyncio.run(_durable(f"sqlite:///{directory}/queue.db", tasks))


async def _durable(url: str, tasks: int) -> float:
    options: dict[str, Any] = {"isolation": "process", "workers": PROCESSES, "queue_size": tasks}
    async with acode.Pool(store=url, **options) as pool:
        begin = time.perf_counter()
        handles: list[Any] = []
        for _ in range(0, tasks, BATCH):
            handles += await pool.submit_many(noop, [()] * BATCH)
        for handle in handles:
            await handle.result()
        return tasks / (time.perf_counter() - begin)


def _executor(tasks: int) -> None:
    with ProcessPoolExecutor(PROCESSES) as executor:
        for future in [executor.submit(time.monotonic_ns) for _ in range(tasks)]:
            future.result()


def _latency(shelf: Shelf, scale: Scale, others: dict[str, Callable[[], float]]) -> Iterator[Line]:
    count = SAMPLES * (1 if scale.rounds <= QUICK.rounds else 2)
    ways = {"process": noop, "inline": noop_inline}
    samples: dict[str, list[float]] = {name: [] for name in (*ways, *others)}
    with asyncio.Runner() as runner:
        pools = {way: _pool(way, shelf) for way in ways}
        for way, handler in ways.items():
            runner.run(pools[way].start())
            runner.run(_warm(pools[way], handler))
        for _ in range(count):
            for way, handler in ways.items():
                samples[way].append(runner.run(_once(pools[way], handler)))
            for name, latency in others.items():
                samples[name].append(latency())
        for pool in pools.values():
            runner.run(pool.stop())
    for way in ways:
        for rank, label in ((0.5, "p50"), (0.99, "p99")):
            ours = _percentile(samples[way], rank)
            for name in others:
                theirs = _percentile(samples[name], rank)
                case = f"submit to start, idle, {way}, {label}"
                line = Line(case, duration(ours), f"{name}: {duration(theirs)}", ours / theirs)
                yield line._replace(goal="≤ 1x", met=ours <= theirs)


def _pool(isolation: Any, shelf: Shelf) -> acode.Pool:
    url = f"sqlite:///{shelf.fresh().root}/queue.db"
    return acode.Pool(store=url, isolation=isolation, workers=PROCESSES)


async def _warm(pool: acode.Pool, handler: Callable[..., Any]) -> None:
    """The same few that every peer has done by now."""
    for handle in await pool.submit_many(handler, [()] * WARM):
        await handle.result()


async def _once(pool: acode.Pool, handler: Callable[..., Any]) -> float:
    begin = time.monotonic_ns()
    handle = await pool.submit(handler)
    return (await handle.result() - begin) / 1e9


def _percentile(values: list[float], rank: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * rank))]


def _inline(scale: Scale) -> Iterator[Line]:
    turns = {
        OURS: lambda: asyncio.run(_inline_cost(scale.tasks)),
        BARE: lambda: asyncio.run(_queue_cost(scale.tasks, _plainly)),
        BY_HAND: lambda: asyncio.run(_queue_cost(scale.tasks, _by_hand)),
    }
    rounds = Rounds(turns, max(3, scale.rounds))
    yield at_most("a no-op inline, in memory", Pair(rounds, OURS, BARE), 2)
    yield at_most("a no-op inline, in memory", Pair(rounds, OURS, BY_HAND))


async def _inline_cost(tasks: int) -> float:
    async with acode.Pool(workers=CONSUMERS, queue_size=BATCH) as pool:
        begin = time.process_time()
        for _ in range(0, tasks, BATCH):
            handles = await pool.submit_many(noop_inline, [()] * BATCH)
            for handle in handles:
                await handle.result()
        return (time.process_time() - begin) / tasks


async def _nothing() -> int:
    return 0


async def _plainly() -> int:
    """Nothing but the call: no id, no history, no retries, no timeout."""
    return await _nothing()


async def _by_hand() -> int:
    """What one adds first: an id, a task that can be cancelled alone, a timeout."""
    async with asyncio.timeout(300):
        return await asyncio.create_task(_nothing(), name=uuid4().hex)


async def _queue_cost(tasks: int, run: Callable[[], Awaitable[int]]) -> float:
    """The same with a queue and a future for each result."""
    queue: asyncio.Queue[asyncio.Future[int]] = asyncio.Queue()

    async def consume() -> None:
        while True:
            future = await queue.get()
            future.set_result(await run())

    loop = asyncio.get_running_loop()
    consumers = [asyncio.create_task(consume()) for _ in range(CONSUMERS)]
    begin = time.process_time()
    for _ in range(0, tasks, BATCH):
        futures = [loop.create_future() for _ in range(BATCH)]
        for future in futures:
            queue.put_nowait(future)
        for future in futures:
            await future
    taken = (time.process_time() - begin) / tasks
    for consumer in consumers:
        consumer.cancel()
    return taken


_PROGRAM = """
import asyncio, sys

async def ready():
    # Measured from outside: to look at oneself takes memory, too.
    print("ready", flush=True)
    await asyncio.sleep(3600)

async def pool():
    import acode

    @acode.handler("hold")
    async def hold(ctx):
        await asyncio.sleep(3600)

    async with acode.Pool(isolation=sys.argv[2], shutdown_timeout=0) as pool:
        await pool.submit_many(hold, [()] * 3)
        while pool.stats().active_workers < 3:
            await asyncio.sleep(0.01)
        await pool.submit_many(hold, [()] * 100)
        await ready()

asyncio.run(ready() if sys.argv[1] == "bare" else pool())
"""
SETTLE_SECONDS = 0.2
"""Until every worker has come to where its handler waits."""


def _memory(shelf: Shelf) -> Iterator[Line]:
    bare = _used(shelf.fresh().root, "bare")
    for isolation in ("inline", "process"):
        above = _used(shelf.fresh().root, "pool", isolation) - bare
        line = Line(f"3 workers, 100 waiting, {isolation}", f"{above / 1e6:.1f} MB", "")
        yield line._replace(beside="above a bare loop", goal="≤ 20 MB", met=above <= 20e6)


def _used(directory: str, *words: str) -> float:
    path = os.path.join(directory, "memory.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(_PROGRAM)
    return median(_used_once([sys.executable, path, *words]) for _ in range(3))


def _used_once(command: list[str]) -> float:
    """Pages of its own, and its share of those that are shared, of a program and all below it."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        try:
            if program.stdout is None or not program.stdout.readline():
                raise SystemExit("the program did not begin")
            time.sleep(SETTLE_SECONDS)
            main = psutil.Process(program.pid)
            tree = [main, *main.children(recursive=True)]
            return float(sum(process.memory_full_info().pss for process in tree))
        finally:
            program.kill()
