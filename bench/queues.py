"""Other queues for Python functions, each with a worker of four processes, for as long as needed.

Whoever is not installed is left out. Redis keeps nothing on disk here, which favours its users.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from typing import Any, NamedTuple

import psutil

from bench.handlers import REDIS

PROCESSES = 4
READY_SECONDS = 60.0
REST_SECONDS = 0.002
WARM = 50
"""No-ops that everybody does before anything is measured."""


class Peer(NamedTuple):
    """How a queue is driven."""

    drive: Callable[[int], None]
    """Submit so many no-ops and wait until all are done."""
    latency: Callable[[], float]
    """Seconds from a submission to the start of the function, while everything is idle."""
    pids: tuple[int, ...] = ()
    """Its worker's main process and its broker."""


@contextmanager
def peers() -> Iterator[dict[str, Peer]]:
    """Every queue that is installed."""
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        found: dict[str, Peer] = {}
        if shutil.which("redis-server"):
            os.environ[REDIS] = f"{directory}/redis.sock"
            words = ("redis-server", "--port", "0", "--save", "", "--dir", directory)
            redis = stack.enter_context(_process(*words, "--unixsocket", os.environ[REDIS]))
            _until(lambda: os.path.exists(os.environ[REDIS]))
            for name, (library, command, make) in _ON_REDIS.items():
                if find_spec(library):
                    worker = stack.enter_context(_process(sys.executable, *command))
                    found[name] = make()._replace(pids=(worker, redis))
        for name, peer in found.items():
            print(f"  waiting for {name}", file=sys.stderr, flush=True)
            peer.drive(WARM)  # its workers are up when they have done something
        yield found


@contextmanager
def _process(*words: str) -> Iterator[int]:
    quiet = subprocess.DEVNULL
    # A session of its own: some peers leave their workers behind when they end.
    process = subprocess.Popen(words, stdout=quiet, stderr=quiet, start_new_session=True)
    try:
        yield process.pid
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + READY_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise SystemExit("a peer does not come to its end")
        time.sleep(REST_SECONDS)


def processor_seconds(pids: Iterable[int]) -> float:
    """What these processes, everything below them and this one have used so far."""
    trees = [psutil.Process(pid) for pid in pids]
    below = [child for tree in trees for child in tree.children(recursive=True)]
    return sum(sum(each.cpu_times()[:2]) for each in {psutil.Process(), *trees, *below})


class _Loop:
    """One event loop for all rounds: connections belong to it."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def run(self, work: Any) -> Any:
        return self._runner.run(work)


def _taskiq() -> Peer:
    from bench.handlers_taskiq import broker, noop

    loop = _Loop()
    loop.run(broker.startup())

    async def one() -> float:
        begin = time.monotonic_ns()
        task = await noop.kiq()
        result = await task.wait_result(check_interval=REST_SECONDS)
        return float(result.return_value - begin) / 1e9

    async def many(times: int) -> None:
        tasks: list[Any] = []
        for _ in range(0, times, 100):
            tasks += await asyncio.gather(*(noop.kiq() for _ in range(100)))
        for task in tasks:
            await task.wait_result(check_interval=REST_SECONDS, timeout=READY_SECONDS)

    return Peer(lambda times: loop.run(many(times)), lambda: loop.run(one()))


def _saq() -> Peer:
    from bench.handlers_saq import queue

    loop = _Loop()

    async def one() -> float:
        begin = time.monotonic_ns()
        started: int = await queue.apply("noop", poll_interval=REST_SECONDS)
        return (started - begin) / 1e9

    async def many(times: int) -> None:
        for _ in range(0, times, 100):
            await asyncio.gather(*(queue.enqueue("noop") for _ in range(100)))
        while await queue.count("incomplete"):  # noqa: ASYNC110 -- there is no event
            await asyncio.sleep(REST_SECONDS)

    return Peer(lambda times: loop.run(many(times)), lambda: loop.run(one()))


def _dramatiq() -> Peer:
    from bench.handlers_dramatiq import broker, noop, results

    def one() -> float:
        begin = time.monotonic_ns()
        message = noop.send()
        started: int = message.get_result(backend=results, block=True, timeout=60_000)
        return (started - begin) / 1e9

    def many(times: int) -> None:
        for _ in range(times):
            noop.send()
        broker.join("default", interval=int(1000 * REST_SECONDS) or 1)

    return Peer(many, one)


def _celery() -> Peer:
    from bench.handlers_celery import noop

    def one() -> float:
        begin = time.monotonic_ns()
        started: int = noop.delay().get(timeout=READY_SECONDS, interval=REST_SECONDS)
        return (started - begin) / 1e9

    def many(times: int) -> None:
        for result in [noop.delay() for _ in range(times)]:
            result.get(timeout=READY_SECONDS, interval=REST_SECONDS)

    return Peer(many, one)


_ON_REDIS: dict[str, tuple[str, list[str], Callable[[], Peer]]] = {
    "taskiq": (
        "taskiq_redis",
        ["-m", "taskiq", "worker", "bench.handlers_taskiq:broker", "--workers", str(PROCESSES)],
        _taskiq,
    ),
    "SAQ": (
        "saq",
        ["-m", "saq", "bench.handlers_saq.settings", "--workers", str(PROCESSES)],
        _saq,
    ),
    "Dramatiq": (
        "dramatiq",
        ["-m", "dramatiq", "bench.handlers_dramatiq", "-p", str(PROCESSES), "-t", "1"],
        _dramatiq,
    ),
    "Celery": (
        "celery",
        ["-m", "celery", "-A", "bench.handlers_celery", "worker", "-c", str(PROCESSES)],
        _celery,
    ),
}
